package wire

import (
	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Consumer is the consumer's half of one session, in positions only.
//
// Its owner decides how much to ask and processes the events; the Consumer says
// what to send and whether what arrives is legal. It is told of decisions at any
// time, with a stream or without, and says with Next what of them the current
// stream still has to carry.
//
// A Consumer outlives streams. Stream says which one is its own: what comes from
// another one, frames or the notice that it broke, is not for the Consumer, and
// its owner drops it.
//
// A method that returns an error has changed nothing. Errors are of type *[Error];
// one about a frame ends the session.
//
// The law between its positions holds after every call:
//
//	acked <= received <= said <= granted
//
// where said is the part of granted that some frame has carried.
type Consumer struct {
	last  Triple // of the last Open
	known bool   // Opened was seen on some stream
	epoch uint64

	granted  int64
	received int64
	acked    int64
	done     credit.Ranges // above acked
	ranges   int           // how many of them a frame carries at most

	cancel sluicev1.CancelKind // what the owner wants
	why    string
	tried  []credit.Range // when it failed
	end    *sluicev1.End  // seen on any stream

	on onStream
}

// onStream is what one stream has carried. Each Open begins with a new one.
type onStream struct {
	open       bool // Open was sent
	opened     bool // Opened was received
	ended      bool // End was received
	granted    int64
	acked      int64
	untold     credit.Ranges // the part of done that no frame has carried
	owed       bool          // an Ack
	cancel     sluicev1.CancelKind
	halfClosed bool
}

// NewConsumer begins a session that has asked for granted events. incarnation and
// session, both at least 1, name it: see [Triple].
func NewConsumer(incarnation, session uint64, granted int64) *Consumer {
	return &Consumer{
		last:    Triple{Incarnation: incarnation, Session: session},
		granted: max(granted, 0),
		ranges:  maxRanges,
	}
}

// A frame carries at most maxRanges done ranges, of rangeBytes each. What more there is
// to say is said by the frames that follow, so no frame grows with what is processed.
const (
	maxRanges  = 1024
	rangeBytes = 24
	restBytes  = 2 << 10 // that a frame takes beside its ranges: names, a reason
)

// FramesUpTo says that the producer takes frames of at most that many bytes.
func (c *Consumer) FramesUpTo(bytes int64) {
	c.ranges = int(min(max((bytes-restBytes)/rangeBytes, 1), maxRanges))
}

// Open begins a new stream, which replaces the one before, and returns what its
// first frame says.
func (c *Consumer) Open() Opening {
	c.last.Attempt++
	done := c.done.First(c.ranges)
	c.on = onStream{open: true, granted: c.granted, acked: c.acked, untold: c.done.Clone()}
	c.on.untold.Without(done)
	c.on.owed = c.on.untold.Count() > 0
	return Opening{
		Triple:   c.last,
		Known:    c.known,
		Granted:  c.granted,
		Received: c.received,
		Acked:    c.acked,
		Done:     done,
	}
}

// Opened applies the answer to Open. What the consumer has asked for since stays
// to be asked; the echo changes nothing.
func (c *Consumer) Opened(epoch uint64, granted, next int64) error {
	switch {
	case !c.on.open:
		return broken(RuleNotOpened, "Opened without Open")
	case c.on.opened:
		return broken(RuleOpenTwice, "Opened came twice")
	case c.known && epoch != c.epoch:
		return broken(RuleUnknownSession, "the producer has started anew since, and goes on with what it cannot hold")
	case c.Failed():
	case granted > c.on.granted:
		return broken(RuleGrantedTooLarge, "Opened says that %d are asked for, of %d", granted, c.on.granted)
	case next != c.received+1:
		return broken(RulePositionGap, "Opened goes on at position %d, after %d", next, c.received)
	}
	c.on.opened = true
	c.known, c.epoch = true, epoch
	return nil
}

// Batch applies n events at positions from first. They are the owner's to process
// when take is true; a consumer that failed has no use for them.
func (c *Consumer) Batch(first, n int64) (take bool, err error) {
	switch {
	case !c.on.opened:
		return false, broken(RuleNotOpened, "a batch came before Opened")
	case n < 1:
		return false, broken(RuleEmptyBatch, "a batch came without events")
	case c.on.ended:
		return false, broken(RuleAfterEnd, "a batch came after End")
	case c.Failed():
		return false, nil
	case c.end != nil:
		return false, broken(RuleAfterEnd, "a batch came after End at position %d", c.end.GetLast())
	case first != c.received+1:
		return false, broken(RulePositionGap, "a batch at position %d came after %d", first, c.received)
	case n > credit.Sub(c.on.granted, c.received):
		return false, broken(RuleCreditExceeded, "%d events came for a credit of %d", n, credit.Sub(c.on.granted, c.received))
	}
	c.received += n
	return true, nil
}

// Ask adds n to what is asked for, at any time. Asks that no frame has carried yet
// leave as one: in the Open of the next stream, or in one Ask on this. When nothing
// more is wanted (after Cancel) or will come (after End), none leaves.
//
// RuleAskNotPositive is for n below 1: nothing is asked.
func (c *Consumer) Ask(n int64) error {
	if n < 1 {
		return broken(RuleAskNotPositive, "Ask(%d)", n).hint("ask for at least 1")
	}
	c.granted = credit.Add(c.granted, n)
	return nil
}

// Processed says that everything up to position to is processed, and the ranges
// done above it too, together with those it was told of before: what several
// goroutines have to say may come in any order. idle says that nothing is left to process: what is processed is
// told now, by an Ack if no Ask carries it. An owner who asks rarely, because its
// demand is unbounded, may be idle in this sense whenever enough has piled up.
//
// The errors are mistakes of the caller: it goes back, or beyond what was received.
func (c *Consumer) Processed(to int64, done []credit.Range, idle bool) error {
	switch {
	case to < c.acked:
		return broken(RuleAckGoesBack, "%d events are processed, after %d", to, c.acked)
	case to > c.received:
		return broken(RuleAckBeyondSent, "%d events are processed, and %d received", to, c.received)
	}
	if err := checkDone(done, to, c.received); err != nil {
		return err
	}
	for _, r := range done {
		if !c.done.Has(r.First, r.Last) {
			c.done.Add(r.First, r.Last)
			c.on.untold.Add(r.First, r.Last)
		}
	}
	c.acked = c.done.Advance(to)
	c.on.untold.Drop(c.acked)
	c.on.owed = c.on.owed || idle && !c.told()
	return nil
}

// Cancel says that the subscription is to end: by drain, so that everything that
// was sent is processed, or as failed, so that whatever is not processed goes back.
// Failed may follow drain, also after End; nothing else changes a Cancel, or one
// that End has made needless. It is repeated on every new stream until End.
//
// tried are the positions, of those that go back when it failed, that a handler had and
// did not finish: only they count an attempt.
//
// The errors are RuleCancelKind, and RuleTriedRanges for tried that are not ranges in
// order of what was received.
func (c *Consumer) Cancel(kind sluicev1.CancelKind, reason string, tried ...credit.Range) error {
	if err := checkCancelKind(kind); err != nil {
		return err
	}
	if err := checkTried(tried, c.received); err != nil {
		return err
	}
	drain := kind == sluicev1.CancelKind_CANCEL_KIND_DRAIN
	if kind <= c.cancel || drain && c.end != nil || c.complete() {
		return nil
	}
	c.cancel, c.why, c.tried = kind, reason, append([]credit.Range(nil), tried...)
	return nil
}

// End applies the producer's last frame. A consumer that has not failed must have
// received everything up to last.
func (c *Consumer) End(last int64, reason sluicev1.EndReason, message string) error {
	switch {
	case !c.on.opened:
		return broken(RuleNotOpened, "End came before Opened")
	case c.on.ended:
		return broken(RuleAfterEnd, "End came twice")
	case !c.Failed() && last != c.received:
		return broken(RuleEndMismatch, "End names position %d, and %d were received", last, c.received)
	}
	c.on.ended = true
	c.end = &sluicev1.End{Last: last, Reason: reason, Message: message}
	return nil
}

// told reports whether the current stream has carried what is processed.
func (c *Consumer) told() bool {
	return c.acked == c.on.acked && c.on.untold.Count() == 0
}

// complete reports whether everything that was and will be sent is processed.
func (c *Consumer) complete() bool {
	return c.end != nil && !c.Failed() && c.acked == c.end.GetLast()
}

// settled reports whether the producer's answer can change nothing any more.
func (c *Consumer) settled() bool { return c.Failed() || c.complete() }
