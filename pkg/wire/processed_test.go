package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// What is processed out of order is told by several goroutines, and one may overtake
// another: nothing that was told is forgotten.
func TestProcessedIsNeverTakenBack(t *testing.T) {
	c := NewConsumer(1, 1, 0)
	require.NoError(t, c.Ask(20))
	open := c.Open()
	require.NoError(t, c.Opened(1, open.Granted, 1))
	take, err := c.Batch(1, 20)
	require.NoError(t, err)
	require.True(t, take)
	// ranges are given by their bounds, one after the other.
	ranges := func(bounds []int64) []credit.Range {
		all := make([]credit.Range, 0, len(bounds)/2)
		for i := 0; i < len(bounds); i += 2 {
			all = append(all, credit.Range{First: bounds[i], Last: bounds[i+1]})
		}
		return all
	}
	f := func(acked int64, done []int64, want int64, wantDone ...int64) {
		t.Helper()
		require.NoError(t, c.Processed(acked, ranges(done), true))
		require.Equal(t, want, c.Acked())
		require.ElementsMatch(t, ranges(wantDone), c.Done())
	}
	f(0, []int64{3, 3, 5, 5}, 0, 3, 3, 5, 5)
	f(0, []int64{3, 3}, 0, 3, 3, 5, 5) // it was overtaken
	f(1, []int64{3, 6}, 1, 3, 6)
	f(1, nil, 1, 3, 6)
	f(2, nil, 6)
	f(6, []int64{9, 20}, 6, 9, 20)
	require.Error(t, c.Processed(5, nil, true))
	f(20, nil, 20)
}

// However scattered a consumer finishes its events, no frame grows with that, and all of
// it is told: by the Open and what follows it, and before a Cancel that gives back the rest.
func TestDoneRangesAreCutIntoFrames(t *testing.T) {
	const events, frame = 20_000, 4096
	c := NewConsumer(1, 1, events)
	p, _, err := NewProducer(c.Open(), events, events)
	require.NoError(t, err)
	emit(t, p, events)
	require.NoError(t, c.Opened(1, events, 1))
	c.FramesUpTo(frame)
	_, err = c.Batch(1, events)
	require.NoError(t, err)
	tell := func() (back int64) {
		t.Helper()
		for f, _ := c.Next(); f != nil; f, _ = c.Next() {
			require.LessOrEqual(t, proto.Size(f), frame)
			step, err := feedProducer(p, f)
			require.NoError(t, err)
			for _, r := range step.Return {
				back += r.Last - r.First + 1
			}
		}
		return back
	}
	for at := int64(2); at <= events; at += 2 {
		require.NoError(t, c.Processed(0, []credit.Range{{First: at, Last: at}}, false))
	}
	require.Zero(t, tell())
	require.EqualValues(t, events/2, p.done.Count())

	// What a stream that broke may not have carried, the next one does.
	p, _, err = NewProducer(Opening{Triple: Triple{1, 1, 1}, Granted: events}, events, events)
	require.NoError(t, err)
	emit(t, p, events)
	c.Broken()
	open := OpenFrame(&sluicev1.Open{Outlet: "o", Subscriber: &sluicev1.Subscriber{Node: "n", Stage: "s"}, MaxFrameBytes: 1}, c.Open())
	require.LessOrEqual(t, proto.Size(open), frame)
	_, err = feedProducer(p, open)
	require.NoError(t, err)
	require.NoError(t, c.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "stop"))
	require.EqualValues(t, events/2, tell(), "what is processed does not come back")
	require.True(t, p.Failed())
}

// An acknowledgement costs the same, however many ranges there are: a client that
// acknowledges one event in two keeps nobody busy.
func BenchmarkScatteredAcks(b *testing.B) {
	const events = 98_000
	for b.Loop() {
		p, _, err := NewProducer(Opening{Triple: Triple{1, 1, 1}, Granted: events}, events, events)
		require.NoError(b, err)
		emit(b, p, events)
		for at := int64(2); at <= events; at += 2 {
			_, err := p.Ack(0, []credit.Range{{First: at, Last: at}})
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(events/2), "ns/ack")
}

func emit(t require.TestingT, p *Producer, n int64) {
	_, err := p.Emit(n)
	require.NoError(t, err)
}
