package wire

import (
	"time"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Protocol is the version of the protocol that this package speaks.
const Protocol = 1

// Limits are what a producer says in Opened about itself.
type Limits struct {
	// UnackedEvents and UnackedBytes are what it holds unacknowledged at most.
	UnackedEvents, UnackedBytes int64
	// FrameBytes is the largest frame that it takes.
	FrameBytes int64
	// Heartbeat is the interval that holds for the stream: see [Heartbeat].
	Heartbeat time.Duration
}

// OpenFrame returns the first frame of a stream. The names, types and terms are
// those of about, which stays as it is and may be used again; the protocol and the
// positions are filled in.
func OpenFrame(about *sluicev1.Open, o Opening) *sluicev1.SubscriberFrame {
	open := proto.CloneOf(about)
	open.Protocol = Protocol
	open.Incarnation, open.Session, open.Attempt = o.Incarnation, o.Session, o.Attempt
	open.Known = o.Known
	open.Granted, open.Received, open.Acked = o.Granted, o.Received, o.Acked
	open.Done = toWire(o.Done)
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: open}}
}

// askFrame is the frame that a subscription sends most, so it is made of one piece.
func askFrame(n, acked int64, done []credit.Range) *sluicev1.SubscriberFrame {
	f := new(struct {
		frame sluicev1.SubscriberFrame
		kind  sluicev1.SubscriberFrame_Ask
		ask   sluicev1.Ask
	})
	f.ask.N, f.ask.Acked, f.ask.Done = n, acked, toWire(done)
	f.kind.Ask = &f.ask
	f.frame.Frame = &f.kind
	return &f.frame
}

func ackFrame(acked int64, done []credit.Range) *sluicev1.SubscriberFrame {
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ack{
		Ack: &sluicev1.Ack{Acked: acked, Done: toWire(done)},
	}}
}

func cancelFrame(kind sluicev1.CancelKind, acked int64, done []credit.Range, why string, tried ...credit.Range) *sluicev1.SubscriberFrame {
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Cancel{
		Cancel: &sluicev1.Cancel{Kind: kind, Acked: acked, Done: toWire(done), Reason: why, Tried: toWire(tried)},
	}}
}

// OpenedFrame returns the answer to an Open that p has accepted.
func OpenedFrame(epoch uint64, p *Producer, l Limits) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Opened{Opened: &sluicev1.Opened{
		Epoch:            epoch,
		Granted:          p.Granted(),
		Next:             p.Next(),
		MaxUnackedEvents: l.UnackedEvents,
		MaxUnackedBytes:  l.UnackedBytes,
		MaxFrameBytes:    l.FrameBytes,
		Heartbeat:        durationpb.New(l.Heartbeat),
	}}}
}

// Batch is what a Batch frame says. There are many of them, so they are written by
// [Batch.Frame], and not made as messages.
type Batch struct {
	// First is the position of the first event.
	First int64
	// Events are encoded, as [Cut] returns them. Attempts says how often each was tried
	// before; it is nil when none was.
	Events   []byte
	Attempts []int32
	// More says that the delivery goes on in the next frame.
	More bool
	// Backlog is how many events wait at the producer.
	Backlog int64
}

// IdleFrame returns a sign of life.
func IdleFrame(sent, backlog int64) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Idle{
		Idle: &sluicev1.Idle{Sent: sent, Backlog: backlog},
	}}
}

// DrainingFrame says that the producer ends before the deadline has passed.
func DrainingFrame(deadline time.Duration) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Draining{
		Draining: &sluicev1.Draining{Deadline: durationpb.New(deadline)},
	}}
}

// EndFrame returns the last frame, with what [Producer.EndDue] says.
func EndFrame(end *sluicev1.End) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_End{End: end}}
}

func toWire(rs []credit.Range) []*sluicev1.Range {
	if len(rs) == 0 {
		return nil
	}
	out := make([]*sluicev1.Range, len(rs))
	for i, r := range rs {
		out[i] = &sluicev1.Range{First: r.First, Last: r.Last}
	}
	return out
}

// DoneOf returns the done ranges, or the tried ones, of a frame that was checked.
func DoneOf(rs []*sluicev1.Range) []credit.Range {
	if len(rs) == 0 {
		return nil
	}
	out := make([]credit.Range, len(rs))
	for i, r := range rs {
		out[i] = credit.Range{First: r.GetFirst(), Last: r.GetLast()}
	}
	return out
}
