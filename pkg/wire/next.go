package wire

import (
	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Next returns the frame to send on the current stream now, and books it as sent;
// call it until it returns nil and false. halfClose says to close the consumer's
// side of the stream: everything is said.
//
// Frames may follow an Open that is not answered yet; they hold if the Open does.
// Whatever a stream did not carry, because it broke, the next one does.
func (c *Consumer) Next() (frame *sluicev1.SubscriberFrame, halfClose bool) {
	switch {
	case !c.on.open || c.on.halfClosed:
		return nil, false
	}
	done := c.on.untold.First(c.ranges + 1)
	more := len(done) > c.ranges
	done = done[:min(len(done), c.ranges)]
	switch {
	case more && c.on.cancel < sluicev1.CancelKind_CANCEL_KIND_FAILED:
		// A Cancel gives back what was not told before.
		c.tell(done)
		return ackFrame(c.acked, done), false
	case c.cancelDue():
		c.on.cancel = c.cancel
		c.tell(done)
		return cancelFrame(c.cancel, c.acked, done, c.why, c.tried...), false
	case c.askDue():
		n := credit.Sub(c.granted, c.on.granted)
		c.on.granted = c.granted
		c.tell(done)
		return askFrame(n, c.acked, done), false
	case c.ackDue():
		c.tell(done)
		return ackFrame(c.acked, done), false
	case c.on.opened && c.end != nil && c.settled():
		// Cancel and the last Ack came before this, so all is said.
		c.on.halfClosed = true
		return nil, true
	}
	return nil, false
}

// tell books that a frame carries what is processed: acked, and these ranges.
func (c *Consumer) tell(done []credit.Range) {
	c.on.untold.Without(done)
	c.on.acked, c.on.owed = c.acked, c.on.untold.Count() > 0
}

// cancelDue: after End there is nothing to drain, but still something to fail.
func (c *Consumer) cancelDue() bool {
	return c.cancel > c.on.cancel && (c.end == nil || c.Failed())
}

func (c *Consumer) askDue() bool {
	return c.granted > c.on.granted && c.cancel == 0 && c.end == nil
}

// ackDue: a consumer that failed has given up its claim on what was not processed
// by then, so what it processes after that is nobody's business.
func (c *Consumer) ackDue() bool {
	return !c.Failed() && (c.on.owed || c.complete() && !c.told())
}

// Outcome is what has become of a session when its stream is closed.
type Outcome int

const (
	// Going: the session goes on. Open a new stream, at once or, after a refusal
	// that is retryable, later.
	Going Outcome = iota
	// Completed: everything that was sent is processed, or given back by a consumer
	// that failed, and the producer has forgotten the session.
	Completed
	// LostKeep: the session is lost, and nobody else gets what was received before
	// anybody can know: process it.
	LostKeep
	// LostDrop: the session is lost, and the producer has given back what was not
	// acknowledged: drop what is not started.
	LostDrop
	// Refused: the producer has ended the session by a rule, or never began it. What
	// was not acknowledged goes back: drop what is not started.
	Refused
)

// String is the name of the outcome.
func (o Outcome) String() string {
	return [...]string{"going", "completed", "lost-keep", "lost-drop", "refused"}[o]
}

// Broken says that the current stream broke, without a word of the producer. The
// session is to be opened again.
func (c *Consumer) Broken() { c.on = onStream{} }

// Refused says that the current stream ended with the status of a rule, from a
// producer with that epoch.
func (c *Consumer) Refused(rule Rule, epoch uint64) Outcome {
	c.Broken()
	switch {
	case rule.Retryable():
		return Going
	case c.settled():
		return Completed
	case !c.known:
		return Refused
	case epoch != c.epoch:
		// The process that gave the events is gone, and what it held with it.
		return LostKeep
	case rule == RuleUnknownSession:
		return LostDrop
	}
	return Refused
}

// Closed says that the current stream was closed with OK. That is the producer's
// answer to a half-close; unasked for, it is no more than a stream that broke.
func (c *Consumer) Closed() Outcome {
	asked := c.on.halfClosed
	c.Broken()
	if asked || c.complete() {
		return Completed
	}
	return Going
}

// Expire says that the consumer's window is over: it stops trying. What it has
// received is processed (at-least-once: others may be given it too), or dropped if
// it is not started (at-most-once); that is its owner's decision. A consumer that
// failed drops it.
func (c *Consumer) Expire() Outcome {
	c.Broken()
	switch {
	case c.complete():
		return Completed
	case c.Failed():
		return LostDrop
	}
	return LostKeep
}

// Stream is the attempt whose stream the session is on, or 0 while it has none.
func (c *Consumer) Stream() uint64 {
	if !c.on.open {
		return 0
	}
	return c.last.Attempt
}

// Opening reports whether the current stream waits for Opened.
func (c *Consumer) Opening() bool { return c.on.open && !c.on.opened }

// Granted is what was asked for in all.
func (c *Consumer) Granted() int64 { return c.granted }

// Received is the position of the last event that was received.
func (c *Consumer) Received() int64 { return c.received }

// Acked is the position up to which everything is processed.
func (c *Consumer) Acked() int64 { return c.acked }

// Done are the ranges above Acked that are processed too. The slice is the
// caller's.
func (c *Consumer) Done() []credit.Range { return c.done.All() }

// Epoch is the epoch of the producer that opened the session, or 0.
func (c *Consumer) Epoch() uint64 { return c.epoch }

// Attempt is the number of the last Open.
func (c *Consumer) Attempt() uint64 { return c.last.Attempt }

// Failed reports whether Cancel was called with failed.
func (c *Consumer) Failed() bool { return c.cancel == sluicev1.CancelKind_CANCEL_KIND_FAILED }

// Ended returns what End said, and whether it was seen.
func (c *Consumer) Ended() (reason sluicev1.EndReason, message string, ok bool) {
	return c.end.GetReason(), c.end.GetMessage(), c.end != nil
}
