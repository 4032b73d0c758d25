package stage

import "github.com/sluicenet/sluice/internal/credit"

// lent are events of one subscription that are handled out of order.
type lent[T any] struct {
	taken int64 // the position of the last event that was taken
	acked int64 // everything up to it is processed
	done  credit.Ranges
	out   map[int64]Returned[T] // by position
	// ending: the subscription has ended, and out is waited for.
	ending bool
}

func newLent[T any]() *lent[T] { return &lent[T]{out: map[int64]Returned[T]{}} }

// progress is what is processed: everything up to acked, and ranges above it.
func (in *inflow[T]) progress() (acked int64, done []Range) {
	if in.lent == nil {
		return in.window.Acked(), nil
	}
	return in.lent.acked, in.lent.done.All()
}

// lend takes the batch in hand off the queue, for workers to handle, and returns the
// position of its first event.
func (c *consumer[T]) lend() (first int64) {
	in, n := c.hand.in, c.hand.n
	c.hand.in, c.hand.n = nil, 0
	first = in.lent.taken + 1
	attempts := in.runs.items()[0].attempts
	for _, e := range in.events.take(n) {
		in.lent.taken++
		in.lent.out[in.lent.taken] = Returned[T]{Event: e, Attempts: attempts}
	}
	c.shift(in, n)
	return first
}

// finish books an event that was lent as processed, and returns the ask that is due, or
// 0: then the producer is owed an acknowledgement. An ask is kept back for good with
// hold, and on a subscription that comes to its end. It reports false for an event that
// is not lent: it has been finished, or has gone back.
func (c *consumer[T]) finish(in *inflow[T], at int64, hold bool) (ask int64, ok bool) {
	if _, ok := in.lent.out[at]; !ok {
		return 0, false
	}
	delete(in.lent.out, at)
	in.lent.done.Add(at, at)
	in.lent.acked = in.lent.done.Advance(in.lent.acked)
	c.processed++
	ask = in.window.Processed(1)
	if hold || in.leaving || in.ending != nil || c.over != nil {
		in.window.Hold(ask)
		ask = 0
	}
	if in.lent.ending && len(in.lent.out) == 0 {
		c.turns.push(turn[T]{in: in}) // its end was waiting for this
	}
	return ask, true
}

// awaited reports whether the end of a subscription waits for the workers that have
// its events: always, unless the stage ends by it and so do they.
func (in *inflow[T]) awaited() bool {
	return in.lent != nil && len(in.lent.out) > 0 && (in.ending.Reason.Normal() || in.mode == Temporary)
}

func (l *inlet[T]) lend() (first int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.lend()
}

// finish books an event that was lent as processed. tell asks for more, or acknowledges:
// it is called without a lock.
func (l *inlet[T]) finish(in *inflow[T], at int64) (tell func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ask, ok := l.core.finish(in, at, l.cut != nil)
	if !ok || l.closed {
		return func() {}
	}
	l.news.Signal()
	up := in.up
	acked, done := in.progress()
	return func() {
		// An error here has ended the subscription already: its Ended says so.
		if ask > 0 {
			_ = up.Ask(ask, acked, done...)
		} else {
			_ = up.Ack(acked, done...)
		}
	}
}

// leaveOut is finish for an event that a selector on this side does not keep.
func (l *inlet[T]) leaveOut(in *inflow[T], at int64) (tell func()) {
	l.mu.Lock()
	in.leftOut++
	l.mu.Unlock()
	return l.finish(in, at)
}

// enough ends the stage well. What is not begun goes back.
func (l *inlet[T]) enough() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.core.over == nil {
		l.core.over = &verdict{reason: Completed}
	}
	l.news.Broadcast()
}
