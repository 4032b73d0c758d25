package wire

import "github.com/sluicenet/sluice/internal/credit"

// Step is what the owner of a [Producer] does next. Its parts are independent, and
// obeyed in this order.
type Step struct {
	// Return are the positions of events that are given back: they were not
	// processed, and this subscriber gets them no more. They ascend, and are read out
	// of the retained events before Release.
	Return []credit.Range
	// Told says that the consumer has said which of them a handler had: those in Tried.
	// One that died without a word says nothing, and the owner makes a guess.
	Told  bool
	Tried []credit.Range
	// Release is how many events leave the front of the retained ones for good.
	Release int64
	// Allot is the credit to hand on to the dispatcher.
	Allot int64
}

// Producer is the producer's half of one session, in positions only.
//
// Its owner keeps the events: those at positions Acked+1 to Sent, no more and no
// less once it has obeyed the last Step. It takes events from a dispatcher, as
// many as were allotted, and tells with Emit; it writes what Pending says, and
// tells with Wrote.
//
// A Producer outlives streams. Stream says which one is its own: what comes from
// another one, frames or the notice that it broke, is not for the Producer, and
// its owner drops it.
//
// A method that returns an error has changed nothing. Errors are of type *[Error]
// and end the session: its owner refuses by it and calls Expire.
//
// The law between its positions holds after every call:
//
//	acked <= sent <= allotted <= min(granted, acked + max_unacked, sent + ahead)
//
// where the last part holds as long as ahead stays the same.
type Producer struct {
	last       Triple // of the Open that was accepted last
	attached   bool
	maxUnacked int64
	ahead      int64 // how much is allotted that is not sent, at most

	granted  int64 // asked for in all
	allotted int64 // handed on to the dispatcher in all, what was revoked taken off
	sent     int64 // events that the dispatcher gave
	acked    int64
	done     credit.Ranges // above acked
	next     int64         // what is written next, on this stream

	ending
}

// NewProducer begins a session by a first Open. maxUnacked, at least 1, is how many
// events the session holds at most, and ahead, at least 1, how many it may be given that
// have no position yet: see Ahead. The errors are those of an Open that makes no
// sense, and RuleUnknownSession for one that wants to go on with a session.
func NewProducer(o Opening, maxUnacked, ahead int64) (*Producer, Step, error) {
	if err := o.check(); err != nil {
		return nil, Step{}, err
	}
	if o.Known {
		return nil, Step{}, broken(RuleUnknownSession, "session %d is not held", o.Session)
	}
	p := &Producer{
		last:       o.Triple,
		attached:   true,
		maxUnacked: max(maxUnacked, 1),
		ahead:      max(ahead, 1),
		granted:    o.Granted,
		next:       1,
	}
	return p, Step{Allot: p.allot()}, nil
}

// Resume lets an Open take the session over: what it says is adopted, and its
// stream replaces the one before. What was received is not sent again.
//
// A session that failed has nothing left to be compared with, so it takes any
// positions; End is all that it still sends.
func (p *Producer) Resume(o Opening) (Step, error) {
	if err := o.check(); err != nil {
		return Step{}, err
	}
	if !o.sameSession(p.last) || o.Attempt <= p.last.Attempt {
		return Step{}, broken(RuleStaleOpen, "attempt %d of session %d comes after attempt %d of session %d",
			o.Attempt, o.Session, p.last.Attempt, p.last.Session)
	}
	if p.over {
		return Step{}, broken(RuleUnknownSession, "session %d is over", o.Session)
	}
	next, step := p.sent+1, Step{}
	if !p.failed {
		switch {
		case o.Received > p.sent:
			return Step{}, broken(RuleReceivedBeyondSent, "%d of %d events were received", o.Received, p.sent)
		case o.Received < p.acked:
			return Step{}, broken(RuleReceivedBelowAcked, "%d events were received, and %d acknowledged before", o.Received, p.acked)
		case o.Granted < p.granted:
			return Step{}, broken(RuleGrantedGoesBack, "%d are asked for, after %d", o.Granted, p.granted)
		}
		released, err := p.ack(o.Acked, o.Done)
		if err != nil {
			return Step{}, err
		}
		p.granted = o.Granted
		next, step.Release = o.Received+1, released
	}
	p.last = o.Triple
	p.attached = true
	p.next = next
	p.endWritten = false
	step.Allot = p.allot()
	return step, nil
}

// Detach says that the session's stream broke. revoked is the credit that the
// dispatcher gave back unspent: Resume allots it again. What it spent before is
// still emitted.
func (p *Producer) Detach(revoked int64) {
	p.attached = false
	p.allotted = max(p.allotted-revoked, p.sent)
}

// Ask applies an Ask. What it acknowledges counts first. The credit it brings is
// allotted as far as max_unacked leaves room, and the rest with later acks.
//
// An Ask that crosses End is legal and brings nothing.
func (p *Producer) Ask(n, acked int64, done []credit.Range) (Step, error) {
	if n < 1 {
		return Step{}, broken(RuleAskNotPositive, "Ask(%d)", n).hint("an ask adds at least 1 to the demand")
	}
	if p.settled() {
		return Step{}, nil
	}
	released, err := p.ack(acked, done)
	if err != nil {
		return Step{}, err
	}
	p.granted = credit.Add(p.granted, n)
	return Step{Release: released, Allot: p.allot()}, nil
}

// Ack applies an Ack, which makes room under max_unacked.
func (p *Producer) Ack(acked int64, done []credit.Range) (Step, error) {
	if p.settled() {
		return Step{}, nil
	}
	released, err := p.ack(acked, done)
	if err != nil {
		return Step{}, err
	}
	return Step{Release: released, Allot: p.allot()}, nil
}

// Emit books n events, at least 1, that the dispatcher gave, at the positions that
// follow Sent. They may come while the session is detached. That makes room for more to
// be allotted.
//
// RuleEnded says that the session has ended meanwhile: the events stay the
// caller's, who gives them back. RuleCreditExceeded is a mistake of the caller: they
// are more than was allotted. An event that is discarded before it is emitted has
// spent credit at the dispatcher and none here: the caller asks the dispatcher
// for another one.
func (p *Producer) Emit(n int64) (Step, error) {
	if p.ended || p.over {
		return Step{}, broken(RuleEnded, "the session has ended at position %d", p.sent)
	}
	if n < 1 || n > p.allotted-p.sent {
		return Step{}, broken(RuleCreditExceeded, "%d events for a credit of %d", n, p.allotted-p.sent)
	}
	p.sent += n
	return Step{Allot: p.allot()}, nil
}

// endlessAhead is how many events are allotted and not sent at most where the demand has
// no bound: nobody is to be given more than it gets rid of.
const endlessAhead = 4096

// Ahead says how many events, at least 1, may be allotted from now on that are not sent.
// They wait at the owner, who does not know their size before it encodes them.
func (p *Producer) Ahead(n int64) { p.ahead = max(n, 1) }

// Pending returns the positions to write on the session's stream now: first what
// a replaced stream may have lost, then what is new. It reports false when there
// are none, or no stream.
func (p *Producer) Pending() (first, last int64, ok bool) {
	if !p.attached || p.over || p.next > p.sent {
		return 0, 0, false
	}
	return p.next, p.sent, true
}

// Wrote books everything up to last, a position that Pending named, as written on
// the session's stream.
func (p *Producer) Wrote(last int64) { p.next = max(p.next, min(last, p.sent)+1) }

// ack books what a frame says about processing, and returns how many events leave
// the front.
//
// An ack may name what is still to be written on this stream: it says that the
// consumer has it all the same, so there is no need to write it.
func (p *Producer) ack(acked int64, done []credit.Range) (int64, error) {
	switch {
	case acked < p.acked:
		return 0, broken(RuleAckGoesBack, "%d events are acknowledged, after %d", acked, p.acked)
	case acked > p.sent:
		return 0, broken(RuleAckBeyondSent, "%d events are acknowledged, and %d sent", acked, p.sent)
	}
	if err := checkDone(done, acked, p.sent); err != nil {
		return 0, err
	}
	released := acked - p.acked
	p.acked = acked
	p.next = max(p.next, acked+1)
	p.done.Drop(acked)
	for _, r := range done {
		p.done.Add(r.First, r.Last)
	}
	return released, nil
}

// allot books and returns the credit that may be handed on now.
func (p *Producer) allot() int64 {
	if !p.attached || p.ended {
		return 0
	}
	ahead := p.ahead
	if p.granted == credit.Unbounded {
		ahead = min(ahead, endlessAhead)
	}
	n := min(p.granted, credit.Add(p.acked, p.maxUnacked), credit.Add(p.sent, ahead)) - p.allotted
	if n <= 0 {
		return 0
	}
	p.allotted += n
	return n
}
