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

func batchFrame(b *sluicev1.Batch) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Batch{Batch: b}}
}

// packed writes the frame of a batch by hand.
func packed(b *sluicev1.Batch) []byte {
	events, n, err := Cut(Bytes("x").Codec(), b.GetEvents(), math.MaxInt64, math.MaxInt64, nil)
	if err != nil || n != len(b.GetEvents()) {
		panic("the events do not fit")
	}
	head, body := Batch{
		First: b.GetFirst(), Events: events, Attempts: b.GetAttempts(), More: b.GetMore(), Backlog: b.GetBacklog(),
	}.Frame()
	return append(head, body...)
}

// standard is the standard encoding of a frame.
func standard(t require.TestingT, m proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return data
}

// sameBytes holds a frame to the standard encoding, byte for byte.
func sameBytes(t require.TestingT, f *sluicev1.SubscriberFrame) []byte {
	want := standard(t, f)
	got, err := AppendFrame([]byte{7}, f)
	require.NoError(t, err)
	require.Equal(t, append([]byte{7}, want...), got)
	require.Equal(t, len(want), FrameSize(f))
	return want
}

var numbers = rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 300), rapid.SampledFrom([]int64{0, 1, math.MaxInt64, math.MinInt64}))

func someBatch(t *rapid.T) *sluicev1.Batch {
	event := rapid.SliceOfN(rapid.Byte(), 0, 200)
	return &sluicev1.Batch{
		First: numbers.Draw(t, "first"), Events: rapid.SliceOfN(event, 0, 20).Draw(t, "events"),
		Attempts: rapid.SliceOfN(rapid.Int32(), 0, 20).Draw(t, "attempts"),
		More:     rapid.Bool().Draw(t, "more"), Backlog: numbers.Draw(t, "backlog"),
	}
}

func TestFramesAreThoseOfTheStandardEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		frame := batchFrame(someBatch(t))
		data := standard(t, frame)
		require.Equal(t, data, packed(frame.GetBatch()))
		got := batchFrame(someBatch(t)) // what it holds is overwritten
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
	})
}

// What is read by hand is what the standard way reads, whatever comes.
func FuzzReadFrames(f *testing.F) {
	for _, m := range []proto.Message{
		batchFrame(&sluicev1.Batch{First: 1, Events: [][]byte{{1}, {2, 3}}, Attempts: []int32{0, 1}, More: true, Backlog: 3}),
		batchFrame(&sluicev1.Batch{First: 3, Events: [][]byte{{}}}), askFrame(3, 4, nil), ackFrame(9, nil),
		askFrame(3, 4, []credit.Range{{First: 6, Last: 7}}), IdleFrame(1, 2),
	} {
		f.Add(standard(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		down, want := batchFrame(&sluicev1.Batch{First: 5, Attempts: []int32{1}}), new(sluicev1.ProducerFrame)
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
	batch := Batch{First: 12345, Backlog: 7}
	codec := Bytes("x").Codec()
	data := packed(&sluicev1.Batch{First: 12345, Events: events, Backlog: 7})
	into := new(sluicev1.ProducerFrame)
	require.NoError(t, ReadProducerFrame(data, into))
	buf := make([]byte, 0, len(data))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		batch.Events, _, _ = Cut(codec, events, 1<<16, 1<<20, buf)
		_, _ = batch.Frame()
		_ = ReadProducerFrame(data, into)
	}), 1.0, "the head")
}

func BenchmarkFrame(b *testing.B) {
	events := make([][]byte, 250)
	for i := range events {
		events[i] = make([]byte, 8)
	}
	data := packed(&sluicev1.Batch{First: 12345, Events: events})
	b.Run("append", func(b *testing.B) {
		buf, codec := make([]byte, 0, len(data)), Bytes("x").Codec()
		for b.Loop() {
			packed, _, _ := Cut(codec, events, 1<<16, 1<<20, buf)
			_, _ = Batch{First: 12345, Events: packed}.Frame()
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
