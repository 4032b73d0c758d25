package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// sameBytes holds a frame to the standard encoding, byte for byte.
func sameBytes(t require.TestingT, m proto.Message) []byte {
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	got, err := AppendFrame([]byte{7}, m)
	require.NoError(t, err)
	require.Equal(t, append([]byte{7}, want...), got)
	require.Equal(t, len(want), FrameSize(m))
	return want
}

var numbers = rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 300), rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64}))

func someBatch(t *rapid.T) Batch {
	event := rapid.SliceOfN(rapid.Byte(), 0, 200)
	return Batch{
		First: numbers.Draw(t, "first"), Events: rapid.SliceOfN(event, 0, 20).Draw(t, "events"),
		Attempts: rapid.SliceOfN(rapid.Int32(), 0, 20).Draw(t, "attempts"),
		More:     rapid.Bool().Draw(t, "more"), Backlog: numbers.Draw(t, "backlog"),
	}
}

func TestFramesAreThoseOfTheStandardEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := BatchFrame(someBatch(t))
		data := sameBytes(t, frame)
		got := BatchFrame(someBatch(t)) // what it holds is overwritten
		require.NoError(t, ReadProducerFrame(data, got))
		require.True(t, proto.Equal(frame, got), "%v\n%v", frame, got)

		n, acked := numbers.Draw(t, "n"), numbers.Draw(t, "acked")
		var done []credit.Range
		if rapid.Bool().Draw(t, "done") {
			done = []credit.Range{{First: 3, Last: 4}}
		}
		for _, frame := range []*sluicev1.SubscriberFrame{askFrame(n, acked, done), ackFrame(acked, done), cancelFrame(sluicev1.CancelKind_CANCEL_KIND_DRAIN, acked, done, "why")} {
			data := sameBytes(t, frame)
			got := askFrame(1, 2, nil)
			require.NoError(t, ReadSubscriberFrame(data, got))
			require.True(t, proto.Equal(frame, got), "%v\n%v", frame, got)
		}
		sameBytes(t, IdleFrame(n, acked))
	})
}

// What is read by hand is what the standard way reads, whatever comes.
func FuzzReadFrames(f *testing.F) {
	for _, m := range []proto.Message{
		BatchFrame(Batch{First: 1, Events: [][]byte{{1}, {2, 3}}, Attempts: []int32{0, 1}, More: true, Backlog: 3}),
		BatchFrame(Batch{First: 3, Events: [][]byte{{}}}), askFrame(3, 4, nil), ackFrame(9, nil),
		askFrame(3, 4, []credit.Range{{First: 6, Last: 7}}), IdleFrame(1, 2),
	} {
		data, err := AppendFrame(nil, m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		down, want := BatchFrame(Batch{First: 5, Attempts: []int32{1}}), new(sluicev1.ProducerFrame)
		err := proto.Unmarshal(data, want)
		require.Equal(t, err == nil, ReadProducerFrame(data, down) == nil)
		if err == nil {
			require.True(t, proto.Equal(want, down), "%v\n%v", want, down)
		}
		up, wantUp := askFrame(1, 2, nil), new(sluicev1.SubscriberFrame)
		err = proto.Unmarshal(data, wantUp)
		require.Equal(t, err == nil, ReadSubscriberFrame(data, up) == nil)
		if err == nil {
			require.True(t, proto.Equal(wantUp, up), "%v\n%v", wantUp, up)
		}
	})
}

func TestFramesOfABatchAllocateNothingForAnEvent(t *testing.T) {
	events := make([][]byte, 250)
	for i := range events {
		events[i] = make([]byte, 8)
	}
	frame := BatchFrame(Batch{First: 12345, Events: events, Backlog: 7})
	data, err := AppendFrame(nil, frame)
	require.NoError(t, err)
	into := new(sluicev1.ProducerFrame)
	require.NoError(t, ReadProducerFrame(data, into))
	buf := make([]byte, 0, FrameSize(frame))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = AppendFrame(buf, frame)
		_ = ReadProducerFrame(data, into)
	}))
}

func BenchmarkFrame(b *testing.B) {
	events := make([][]byte, 250)
	for i := range events {
		events[i] = make([]byte, 8)
	}
	frame := BatchFrame(Batch{First: 12345, Events: events})
	data, err := AppendFrame(nil, frame)
	require.NoError(b, err)
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			_, _ = AppendFrame(buf, frame)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/250, "ns/event")
	})
	b.Run("read", func(b *testing.B) {
		into := new(sluicev1.ProducerFrame)
		for b.Loop() {
			_ = ReadProducerFrame(data, into)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/250, "ns/event")
	})
}
