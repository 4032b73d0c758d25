package wire

import (
	"math"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ReadOpen reads the first frame of a stream, and says what is wrong with it by
// itself. Whether the outlet, its type and its partition fit is the node's to say.
func ReadOpen(f *sluicev1.SubscriberFrame) (*sluicev1.Open, Opening, error) {
	open := f.GetOpen()
	if open == nil {
		if f.GetFrame() == nil {
			return nil, Opening{}, emptyFrame()
		}
		return nil, Opening{}, broken(RuleFirstFrameNotOpen, "the first frame is %T", f.GetFrame()).
			hint("every stream begins with Open, also one that goes on with a subscription")
	}
	if v := open.GetProtocol(); v != Protocol {
		return nil, Opening{}, broken(RuleUnsupportedProtocol, "the subscriber speaks version %d of the protocol, and this node version %d", v, Protocol).
			hint("run versions of sluice that speak the same one")
	}
	if err := checkSubscriber(open.GetSubscriber()); err != nil {
		return nil, Opening{}, err
	}
	switch {
	case open.GetMaxFrameBytes() < 1:
		return nil, Opening{}, broken(RuleBadFrame, "max_frame_bytes is %d", open.GetMaxFrameBytes())
	case badDuration(open.GetHeartbeat()):
		return nil, Opening{}, broken(RuleBadFrame, "heartbeat is %v", open.GetHeartbeat())
	case badDuration(open.GetResumeWindow()):
		return nil, Opening{}, broken(RuleBadFrame, "resume_window is %v", open.GetResumeWindow())
	case open.GetSelector() != "":
		return nil, Opening{}, broken(RuleUnsupportedTerms, "version %d of the protocol has no selectors", Protocol)
	}
	o := Opening{
		Triple:   Triple{Incarnation: open.GetIncarnation(), Session: open.GetSession(), Attempt: open.GetAttempt()},
		Known:    open.GetKnown(),
		Granted:  open.GetGranted(),
		Received: open.GetReceived(),
		Acked:    open.GetAcked(),
		Done:     DoneOf(open.GetDone()),
	}
	return open, o, o.check()
}

// CheckSubscriberFrame says what is wrong with a frame of a consumer, other than
// the first, by itself. What it passes can be given to a [Producer] part by part.
func CheckSubscriberFrame(f *sluicev1.SubscriberFrame) error {
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Open:
		return broken(RuleOpenTwice, "a second Open came on one stream")
	case *sluicev1.SubscriberFrame_Ask:
		if n := f.Ask.GetN(); n < 1 {
			return broken(RuleAskNotPositive, "Ask(%d)", n).hint("an ask adds at least 1 to the demand")
		}
		return checkProcessed(f.Ask.GetAcked(), f.Ask.GetDone())
	case *sluicev1.SubscriberFrame_Ack:
		return checkProcessed(f.Ack.GetAcked(), f.Ack.GetDone())
	case *sluicev1.SubscriberFrame_Cancel:
		if err := checkCancelKind(f.Cancel.GetKind()); err != nil {
			return err
		}
		if err := checkTried(DoneOf(f.Cancel.GetTried()), credit.Unbounded-1); err != nil {
			return err
		}
		return checkProcessed(f.Cancel.GetAcked(), f.Cancel.GetDone())
	}
	return emptyFrame()
}

// CheckProducerFrame says what is wrong with a frame of a producer by itself. What
// it passes can be given to a [Consumer] part by part.
func CheckProducerFrame(f *sluicev1.ProducerFrame) error {
	switch f := f.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		return checkOpened(f.Opened)
	case *sluicev1.ProducerFrame_Batch:
		return checkBatch(f.Batch)
	case *sluicev1.ProducerFrame_Idle:
		if f.Idle.GetSent() < 0 || f.Idle.GetBacklog() < 0 {
			return broken(RuleBadFrame, "Idle says sent %d, backlog %d", f.Idle.GetSent(), f.Idle.GetBacklog())
		}
		return nil
	case *sluicev1.ProducerFrame_Draining:
		if badDuration(f.Draining.GetDeadline()) {
			return broken(RuleBadFrame, "Draining says deadline %v", f.Draining.GetDeadline())
		}
		return nil
	case *sluicev1.ProducerFrame_End:
		if f.End.GetLast() < 0 || f.End.GetReason() == sluicev1.EndReason_END_REASON_UNSPECIFIED {
			return broken(RuleBadFrame, "End says last %d, reason %v", f.End.GetLast(), f.End.GetReason())
		}
		return nil
	}
	return emptyFrame()
}

func checkSubscriber(s *sluicev1.Subscriber) error {
	switch {
	case s.GetNode() == "" || s.GetStage() == "":
		return broken(RuleSubscriberInvalid, "the subscriber is node %q, stage %q", s.GetNode(), s.GetStage()).
			hint("both have a name, the same over every restart")
	case s.GetPartition() < 0:
		return broken(RulePartitionRange, "no outlet has a partition %d", s.GetPartition())
	}
	return nil
}

func checkOpened(o *sluicev1.Opened) error {
	switch {
	case o.GetGranted() < 0 || o.GetNext() < 1:
		return broken(RuleBadFrame, "Opened says granted %d, next %d", o.GetGranted(), o.GetNext())
	case o.GetMaxUnackedEvents() < 1 || o.GetMaxUnackedBytes() < 1 || o.GetMaxFrameBytes() < 1:
		return broken(RuleBadFrame, "Opened says limits of %d events and %d bytes un-acked, %d bytes a frame",
			o.GetMaxUnackedEvents(), o.GetMaxUnackedBytes(), o.GetMaxFrameBytes())
	case badDuration(o.GetHeartbeat()):
		return broken(RuleBadFrame, "Opened says heartbeat %v", o.GetHeartbeat())
	}
	return nil
}

func checkBatch(b *sluicev1.Batch) error {
	n := int64(len(b.GetEvents()))
	switch {
	case n == 0:
		return broken(RuleEmptyBatch, "a batch came without events")
	case b.GetFirst() < 1 || b.GetFirst() > math.MaxInt64-n:
		return broken(RuleBadFrame, "a batch of %d events is at position %d", n, b.GetFirst())
	case b.GetBacklog() < 0:
		return broken(RuleBadFrame, "a batch says backlog %d", b.GetBacklog())
	case len(b.GetAttempts()) != 0 && int64(len(b.GetAttempts())) != n:
		return broken(RuleBadAttempts, "%d attempts for %d events", len(b.GetAttempts()), n)
	}
	for _, a := range b.GetAttempts() {
		if a < 0 {
			return broken(RuleBadAttempts, "an event was tried %d times", a)
		}
	}
	return nil
}

func checkProcessed(acked int64, done []*sluicev1.Range) error {
	if acked < 0 {
		return broken(RuleBadFrame, "acked is %d", acked)
	}
	return checkDone(DoneOf(done), acked, credit.Unbounded-1)
}

func checkCancelKind(kind sluicev1.CancelKind) error {
	switch kind {
	case sluicev1.CancelKind_CANCEL_KIND_DRAIN, sluicev1.CancelKind_CANCEL_KIND_FAILED:
		return nil
	}
	return broken(RuleCancelKind, "Cancel of kind %v", kind).hint("drain and failed are the kinds that there are")
}

func badDuration(d *durationpb.Duration) bool {
	return d != nil && (d.CheckValid() != nil || d.AsDuration() < 0)
}

func emptyFrame() error {
	return broken(RuleEmptyFrame, "the frame carries nothing that version %d of the protocol knows", Protocol)
}
