package wire

import (
	"math"
	"testing"
	"time"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestReadOpen(t *testing.T) {
	about := &sluicev1.Open{
		Outlet:        "numbers",
		Subscriber:    &sluicev1.Subscriber{Node: "b", Stage: "printer", Partition: proto.Int32(0)},
		ResumeWindow:  durationpb.New(30 * time.Second),
		MaxFrameBytes: 1 << 20,
	}
	o := Opening{
		Triple:  Triple{3, 2, 9},
		Known:   true,
		Granted: 20, Received: 9, Acked: 4,
		Done: []credit.Range{{First: 6, Last: 6}, {First: 8, Last: 9}},
	}
	frame := OpenFrame(about, o)
	require.Zero(t, about.GetAttempt(), "what was given is left alone")

	open, got, err := ReadOpen(frame)
	require.NoError(t, err)
	require.Equal(t, o, got)
	require.Equal(t, "numbers", open.GetOutlet())

	f := func(want Rule, spoil func(*sluicev1.Open)) {
		t.Helper()
		bad := proto.CloneOf(open)
		spoil(bad)
		_, _, err := ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: bad}})
		require.ErrorIs(t, err, want)
	}
	f(RuleUnsupportedProtocol, func(o *sluicev1.Open) { o.Protocol = 2 })
	f(RuleSubscriberInvalid, func(o *sluicev1.Open) { o.Subscriber = nil })
	f(RuleSubscriberInvalid, func(o *sluicev1.Open) { o.Subscriber.Node = "" })
	f(RuleSubscriberInvalid, func(o *sluicev1.Open) { o.Subscriber.Stage = "" })
	f(RulePartitionRange, func(o *sluicev1.Open) { o.Subscriber.Partition = proto.Int32(-1) })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.MaxFrameBytes = 0 })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.ResumeWindow = durationpb.New(-1) })
	f(RuleUnsupportedTerms, func(o *sluicev1.Open) { o.Selector = "even" })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.Incarnation = 0 })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.Session = 0 })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.Attempt = 0 })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.Granted = -1 })
	f(RuleBadFrame, func(o *sluicev1.Open) { o.Known = false })
	f(RuleReceivedBelowAcked, func(o *sluicev1.Open) { o.Acked = 10 })
	f(RuleReceivedBeyondSent, func(o *sluicev1.Open) { o.Granted = 8 })
	f(RuleDoneRanges, func(o *sluicev1.Open) { o.Done[0].First = 5 })
	f(RuleDoneRanges, func(o *sluicev1.Open) { o.Done[1].Last = 10 })
	f(RuleDoneRanges, func(o *sluicev1.Open) { o.Done[0], o.Done[1] = o.Done[1], o.Done[0] })
	f(RuleDoneRanges, func(o *sluicev1.Open) { o.Done[0] = nil })

	_, _, err = ReadOpen(&sluicev1.SubscriberFrame{})
	require.ErrorIs(t, err, RuleEmptyFrame)
	_, _, err = ReadOpen(askFrame(1, 0, nil))
	require.ErrorIs(t, err, RuleFirstFrameNotOpen)
}

func TestCheckSubscriberFrame(t *testing.T) {
	const drain = sluicev1.CancelKind_CANCEL_KIND_DRAIN
	apart := []credit.Range{{First: 5, Last: 6}, {First: 8, Last: 8}}
	for _, f := range []*sluicev1.SubscriberFrame{
		askFrame(1, 0, nil), askFrame(math.MaxInt64, 3, apart), ackFrame(0, nil), ackFrame(3, apart), cancelFrame(drain, 3, apart, "why"),
	} {
		require.NoError(t, CheckSubscriberFrame(f), "%v", f)
	}
	f := func(want Rule, frame *sluicev1.SubscriberFrame) {
		t.Helper()
		require.ErrorIs(t, CheckSubscriberFrame(frame), want)
	}
	f(RuleEmptyFrame, nil)
	f(RuleEmptyFrame, &sluicev1.SubscriberFrame{})
	f(RuleOpenTwice, OpenFrame(&sluicev1.Open{}, Opening{}))
	f(RuleAskNotPositive, askFrame(0, 0, nil))
	f(RuleAskNotPositive, askFrame(-1, 0, nil))
	f(RuleAskNotPositive, &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ask{}})
	f(RuleBadFrame, askFrame(1, -1, nil))
	f(RuleBadFrame, ackFrame(-1, nil))
	f(RuleBadFrame, cancelFrame(drain, -1, nil, ""))
	f(RuleDoneRanges, askFrame(1, 4, apart))
	f(RuleDoneRanges, ackFrame(4, apart))
	f(RuleDoneRanges, cancelFrame(drain, 4, apart, ""))
	f(RuleTriedRanges, cancelFrame(drain, 4, nil, "", credit.Range{First: 0, Last: 2}))
	f(RuleTriedRanges, cancelFrame(drain, 4, nil, "", credit.Range{First: 5, Last: 6}, credit.Range{First: 7, Last: 7}))
	f(RuleDoneRanges, ackFrame(0, []credit.Range{{First: 3, Last: 2}}))
	f(RuleCancelKind, cancelFrame(0, 0, nil, ""))
	f(RuleCancelKind, cancelFrame(3, 0, nil, ""))
}

func TestCheckProducerFrame(t *testing.T) {
	p, _, err := NewProducer(Opening{Triple: Triple{1, 1, 1}, Granted: 10}, 5, 5)
	require.NoError(t, err)
	limits := Limits{UnackedEvents: 5, UnackedBytes: 1 << 20, FrameBytes: 1 << 20, Heartbeat: DefaultHeartbeat}
	events := [][]byte{{1}, nil}
	end := &sluicev1.End{Last: 0, Reason: sluicev1.EndReason_END_REASON_COMPLETED}

	opened := OpenedFrame(7, p, limits)
	require.Equal(t, "epoch:7 granted:10 next:1 max_unacked_events:5 max_unacked_bytes:1048576 max_frame_bytes:1048576 heartbeat:{seconds:10}", oneLine(opened.GetOpened()))
	batch := batchFrame(&sluicev1.Batch{First: 3, Events: events, Attempts: []int32{0, 2}, More: true, Backlog: 9})
	require.Equal(t, `first:3 events:"\x01" events:"" attempts:0 attempts:2 more:true backlog:9`, oneLine(batch.GetBatch()))
	for _, f := range []*sluicev1.ProducerFrame{
		opened, batch, batchFrame(&sluicev1.Batch{First: 1, Events: events}), IdleFrame(3, 4), DrainingFrame(time.Second), EndFrame(end),
	} {
		require.NoError(t, CheckProducerFrame(f), "%v", f)
	}

	f := func(want Rule, frame *sluicev1.ProducerFrame) {
		t.Helper()
		require.ErrorIs(t, CheckProducerFrame(frame), want)
	}
	open := func(spoil func(*sluicev1.Opened)) *sluicev1.ProducerFrame {
		bad := OpenedFrame(7, p, limits)
		spoil(bad.GetOpened())
		return bad
	}
	f(RuleEmptyFrame, nil)
	f(RuleEmptyFrame, &sluicev1.ProducerFrame{})
	f(RuleBadFrame, open(func(o *sluicev1.Opened) { o.Granted = -1 }))
	f(RuleBadFrame, open(func(o *sluicev1.Opened) { o.Next = 0 }))
	f(RuleBadFrame, open(func(o *sluicev1.Opened) { o.MaxUnackedEvents = 0 }))
	f(RuleBadFrame, open(func(o *sluicev1.Opened) { o.MaxUnackedBytes = 0 }))
	f(RuleBadFrame, open(func(o *sluicev1.Opened) { o.MaxFrameBytes = 0 }))
	f(RuleEmptyBatch, batchFrame(&sluicev1.Batch{First: 1}))
	f(RuleBadFrame, batchFrame(&sluicev1.Batch{First: 0, Events: events}))
	f(RuleBadFrame, batchFrame(&sluicev1.Batch{First: math.MaxInt64 - 1, Events: events}))
	f(RuleBadFrame, batchFrame(&sluicev1.Batch{First: 1, Events: events, Backlog: -1}))
	f(RuleBadAttempts, batchFrame(&sluicev1.Batch{First: 1, Events: events, Attempts: []int32{1}}))
	f(RuleBadAttempts, batchFrame(&sluicev1.Batch{First: 1, Events: events, Attempts: []int32{1, -1}}))
	f(RuleBadFrame, IdleFrame(-1, 0))
	f(RuleBadFrame, IdleFrame(0, -1))
	f(RuleBadFrame, DrainingFrame(-1))
	f(RuleBadFrame, EndFrame(&sluicev1.End{Last: -1, Reason: end.Reason}))
	f(RuleBadFrame, EndFrame(&sluicev1.End{}))
}
