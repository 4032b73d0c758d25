package wire

import (
	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// ending is how a producer's half comes to its end.
type ending struct {
	ended      bool // no more events; End.last is sent
	reason     sluicev1.EndReason
	message    string
	endWritten bool // on this stream
	failed     bool // the consumer wants nothing more
	over       bool // nothing is left of the session
}

// settled reports whether frames of the consumer can change nothing any more.
func (e *ending) settled() bool { return e.failed || e.over }

// Cancel applies a Cancel. What it acknowledges counts first. tried are the positions
// that a handler had, of those that come back.
//
// Drain ends the session after what was sent: it is still written, processed and
// acknowledged. Failed gives everything back at once that is not processed, after
// which there is nothing to write but End; it may follow a drain, and an End.
// Repeated, a Cancel changes nothing.
func (p *Producer) Cancel(kind sluicev1.CancelKind, acked int64, done []credit.Range, tried ...credit.Range) (Step, error) {
	if err := checkCancelKind(kind); err != nil {
		return Step{}, err
	}
	if p.settled() {
		return Step{}, nil
	}
	if err := checkTried(tried, p.sent); err != nil {
		return Step{}, err
	}
	released, err := p.ack(acked, done)
	if err != nil {
		return Step{}, err
	}
	step := Step{Release: released}
	if kind == sluicev1.CancelKind_CANCEL_KIND_FAILED {
		p.failed = true
		step = p.giveBack(released)
		step.Told, step.Tried = true, tried
		p.ended, p.reason, p.message = true, sluicev1.EndReason_END_REASON_CANCELLED, ""
		return step, nil
	}
	p.End(sluicev1.EndReason_END_REASON_CANCELLED, "")
	return step, nil
}

// End ends the session at the producer's will. What was sent is still written,
// processed and acknowledged; nothing more is emitted. The first End counts, that
// of a drain included; only a failed Cancel changes the reason.
//
// A stage that ends calls it when its subscriptions have nothing un-acked, so that
// whatever comes back before that finds somebody to go to.
func (p *Producer) End(reason sluicev1.EndReason, message string) {
	if p.ended {
		return
	}
	p.ended, p.reason, p.message = true, reason, message
	p.allotted = p.sent
}

// EndDue returns the End to write now, when it is time for it: the session has
// ended, and on this stream everything is written and End is not.
func (p *Producer) EndDue() (*sluicev1.End, bool) {
	if !p.ended || !p.attached || p.over || p.next <= p.sent || p.endWritten {
		return nil, false
	}
	return &sluicev1.End{Last: p.sent, Reason: p.reason, Message: p.message}, true
}

// WroteEnd books End as written on the session's stream.
func (p *Producer) WroteEnd() { p.endWritten = true }

// HalfClose applies that the consumer has closed its side of the stream. Reported
// as finished, the session is over: the stream closes with OK and the session is
// forgotten, its triple excepted.
//
// RuleEndUnacked is for a consumer that closes its side before the session has
// ended, or has not acknowledged everything.
func (p *Producer) HalfClose() (finished bool, err error) {
	switch {
	case p.settled():
	case !p.ended:
		return false, broken(RuleEndUnacked, "the consumer has closed its side before the end").
			hint("to leave, send Cancel")
	case p.acked < p.sent:
		return false, broken(RuleEndUnacked, "the consumer has closed its side with %d of %d events acknowledged", p.acked, p.sent)
	}
	p.over = true
	return true, nil
}

// Expire says that the session is over in another way: the window is over, the
// subscriber has begun a new session, or it broke a rule. What is not processed is
// given back, and nothing is left. Repeated, it changes nothing.
func (p *Producer) Expire() Step {
	if p.over {
		return Step{}
	}
	p.over, p.ended, p.attached = true, true, false
	return p.giveBack(0)
}

// giveBack empties the retained events, of which the first released are already
// booked as processed.
func (p *Producer) giveBack(released int64) Step {
	step := Step{Release: released + p.sent - p.acked}
	from := p.acked + 1
	for _, r := range p.done.All() {
		if from < r.First {
			step.Return = append(step.Return, credit.Range{First: from, Last: r.First - 1})
		}
		from = r.Last + 1
	}
	if from <= p.sent {
		step.Return = append(step.Return, credit.Range{First: from, Last: p.sent})
	}
	p.acked = p.sent
	p.done = credit.Ranges{}
	p.next = p.sent + 1
	p.allotted = p.sent
	return step
}
