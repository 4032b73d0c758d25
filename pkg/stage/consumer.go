package stage

import (
	"maps"
	"slices"

	"github.com/sluicenet/sluice/internal/autodemand"
	"github.com/sluicenet/sluice/internal/credit"
)

// consumer is the pure half of an inlet: what has arrived on which subscription,
// whose turn it is, how much to ask for and when the stage is over. Its methods
// change it and return what to do; they call nobody. It has one owner at a time.
type consumer[T any] struct {
	subs []*inflow[T]
	// turns has one entry for each delivery that is not processed, one for each
	// subscription that has ended and one for each call, in the order of their arrival.
	turns queue[turn[T]]
	calls int // of the turns
	// hand is the batch that the handler has.
	hand struct {
		in *inflow[T]
		n  int
	}
	draining  bool
	jointly   Reason // how the last of the joint subscriptions ended that has ended
	over      *verdict
	processed int64
}

// turn is one thing that the stage's goroutine is to do: a delivery, the end of a
// subscription, or a call.
type turn[T any] struct {
	in   *inflow[T]
	call call
}

// verdict is how a stage ends: err is nil when it ends well.
type verdict struct {
	reason Reason
	err    error
}

// ending is how the outlet of a stage ends that ended so.
func (v verdict) ending() Ending {
	switch {
	case v.err != nil:
		return Ending{Reason: Failed, Err: v.err}
	case v.reason == Completed:
		return Ending{Reason: Completed}
	}
	return Ending{Reason: Shutdown}
}

// inflow is one subscription, as its consumer holds it.
type inflow[T any] struct {
	outlet Outlet[T]
	name   string // of the outlet
	terms  Terms
	mode   CancelMode
	window credit.Window
	auto   *autodemand.Sizer // of the window; nil where its size stays
	// keep, where it is set, says which events are handled. The others are processed
	// by being passed over, in order.
	keep    func(T) bool
	leftOut int64 // by keep
	up      Upstream[T]
	early   int64      // asked for before there was an up
	events  queue[T]   // received and not processed
	runs    queue[run] // how they were delivered
	// trial: it was made by [Subscribe] and is not accepted yet. How it ends then is told
	// to the caller, and nothing to the stage.
	trial bool
	// leaving: the subscription was cancelled, nothing more is asked for.
	leaving bool
	// broken: its producer broke a rule, and is to be told that it is over.
	broken bool
	ending *Ending
	sub    *Subscription
	// whole is set where several members stand behind the subscription, and of where
	// this is one of them: then from names its producer, which has accepted it when open
	// is set.
	whole *whole[T]
	of    *inflow[T]
	from  Member
	open  bool
	// lent are the events that workers have; nil for other stages than Workers.
	lent *lent[T]
}

// run is what is left of one delivery.
type run struct {
	n, attempts int
	redelivered bool
}

// deliver takes a delivery. It reports false, and takes nothing, when it is more
// than was asked for, or the subscription has ended.
func (c *consumer[T]) deliver(in *inflow[T], b Batch[T]) bool {
	if len(b.Events) == 0 {
		return true
	}
	if in.ending != nil || !in.window.Receive(int64(len(b.Events))) {
		return false
	}
	in.events.push(b.Events...)
	in.runs.push(run{len(b.Events), b.Attempts, b.Redelivered})
	c.turns.push(turn[T]{in: in})
	return true
}

// end books that a subscription has ended. What arrived before is processed first.
func (c *consumer[T]) end(in *inflow[T], e Ending) {
	if in.ending != nil {
		return
	}
	in.ending = &e
	if in.trial {
		c.forget(in)
		return
	}
	if e.Drop {
		c.unstart(in)
	}
	c.turns.push(turn[T]{in: in})
}

// post books a call: it is made when everything that has arrived before is handled.
func (c *consumer[T]) post(f call) {
	c.turns.push(turn[T]{call: f})
	c.calls++
}

// unstart drops what was received on a subscription and not begun.
func (c *consumer[T]) unstart(in *inflow[T]) {
	kept := 0
	if c.hand.in == in {
		kept = c.hand.n
	}
	in.events.cut(in.events.len() - kept)
	in.runs = queue[run]{}
	turns := queue[turn[T]]{}
	for _, t := range c.turns.items() {
		if t.in != in {
			turns.push(t)
		} else if kept > 0 && in.runs.len() == 0 {
			in.runs.push(run{n: kept})
			turns.push(t)
		}
	}
	c.turns = turns
}

// next returns the next batch for the handler, or the next call, or ok false when
// nothing is to be done now. The slice is valid until the batch is done.
// Subscriptions whose end is reached are returned in ended.
func (c *consumer[T]) next() (t task[T], ended []*inflow[T], ok bool) {
	for c.over == nil && c.turns.len() > 0 {
		first := c.turns.items()[0]
		in := first.in
		if first.call != nil {
			c.turns.take(1)
			c.calls--
			return task[T]{call: first.call}, ended, true
		}
		if in.runs.len() == 0 {
			c.turns.take(1)
			if in.awaited() {
				in.lent.ending = true // finish comes back to it
				continue
			}
			if in.whole != nil && len(in.whole.members) > 0 {
				in.whole.ended = true // the last of them comes back to it
				continue
			}
			c.remove(in)
			ended = append(ended, in)
			continue
		}
		r := in.runs.items()[0]
		n := r.n
		if most := int(in.window.Batch()); most > 0 {
			n = min(n, most)
		}
		c.hand.in, c.hand.n = in, n
		return task[T]{in: in, run: r, events: in.events.items()[:n]}, ended, true
	}
	return task[T]{}, ended, false
}

// task is a batch for the handler, or a call.
type task[T any] struct {
	in     *inflow[T]
	run    run // the delivery that the batch is a part of
	events []T
	call   call
}

// done books the first n events of the batch in hand as processed; the others stay in
// hand. It returns the ask that is due for its subscription, or 0; ack says
// that the producer is owed an acknowledgement without one: when nothing is left to
// handle, or when nothing is ever asked again, because demand is unbounded. An ask is kept back with
// hold, until release, and on a subscription that comes to its end, for good.
func (c *consumer[T]) done(n int, hold bool) (in *inflow[T], ask int64, ack bool) {
	in = c.hand.in
	if c.hand.n -= n; c.hand.n == 0 {
		c.hand.in = nil
	}
	in.events.take(n)
	c.shift(in, n)
	c.processed += int64(n)
	ask = in.window.Processed(int64(n))
	if hold || in.leaving || in.ending != nil {
		in.window.Hold(ask)
		ask = 0
	}
	return in, ask, ask == 0 && (in.runs.len() == 0 || in.window.Max() == credit.Unbounded)
}

// shift books that the first n events of a subscription were taken.
func (c *consumer[T]) shift(in *inflow[T], n int) {
	in.events.sweep()
	if r := &in.runs.items()[0]; r.n > n {
		r.n -= n
	} else {
		in.runs.take(1)
		c.turns.take(1)
	}
}

// release returns what was held back for a subscription, to be asked for now.
func (in *inflow[T]) release() int64 {
	if in.leaving || in.ending != nil {
		return 0
	}
	return in.window.Release()
}

// holds reports whether an ask is kept back that may be released.
func (c *consumer[T]) holds() bool {
	return slices.ContainsFunc(c.subs, func(in *inflow[T]) bool {
		return in.window.Held() > 0 && !in.leaving && in.ending == nil
	})
}

// remove takes out a subscription whose end is reached, and judges what that means
// for the stage.
func (c *consumer[T]) remove(in *inflow[T]) {
	c.take(in)
	e := *in.ending
	if in.of != nil {
		in.of.whole.part(in)
		if w := in.of.whole; w.ended && len(w.members) == 0 {
			c.turns.push(turn[T]{in: in.of})
		}
		return // it is one of several: how the whole ends counts
	}
	switch {
	case c.over != nil:
	case !e.Reason.Normal() && in.mode != Temporary:
		c.over = &verdict{e.Reason, &SubscriptionError{Outlet: in.name, Reason: e.Reason, Err: e.Err}}
	case c.draining && len(c.subs) == 0, !c.draining && in.mode == Permanent:
		c.over = &verdict{reason: e.Reason}
	case !c.draining && in.mode == Joint:
		if c.jointly = e.Reason; !c.joint() {
			c.over = &verdict{reason: e.Reason}
		}
	}
}

// forget takes out a subscription that never began.
func (c *consumer[T]) forget(in *inflow[T]) {
	c.take(in)
	switch {
	case c.draining:
		c.drain()
	case c.over == nil && in.mode == Joint && c.jointly != 0 && !c.joint():
		c.over = &verdict{reason: c.jointly} // it was the last that was waited for
	}
}

// take takes a subscription out of those that the stage has.
func (c *consumer[T]) take(in *inflow[T]) {
	c.subs = slices.DeleteFunc(c.subs, func(s *inflow[T]) bool { return s == in })
}

// joint reports whether there are joint subscriptions.
func (c *consumer[T]) joint() bool {
	return slices.ContainsFunc(c.subs, func(s *inflow[T]) bool { return s.mode == Joint })
}

// drain lets the stage end with its last subscription, whatever their modes.
func (c *consumer[T]) drain() {
	c.draining = true
	if len(c.subs) == 0 && c.over == nil {
		c.over = &verdict{reason: Shutdown}
	}
}

// rest empties a subscription and returns what was received and not processed, in
// order, and which positions of it a handler had: the first ones in hand, as many as
// tried, and all that workers have. What is processed between those is not left out.
func (c *consumer[T]) rest(in *inflow[T], tried int) (back []Returned[T], had []Range) {
	back = make([]Returned[T], 0, in.events.len())
	if in.lent != nil {
		positions := slices.Sorted(maps.Keys(in.lent.out))
		for _, at := range positions {
			r := in.lent.out[at]
			r.Attempts++
			back = append(back, r)
		}
		if n := len(positions); n > 0 {
			had = []Range{{First: positions[0], Last: positions[n-1]}}
		}
		clear(in.lent.out)
	}
	hand := len(back)
	if n := min(tried, c.hand.n); c.hand.in == in && n > 0 {
		hand += n
		had = []Range{{First: in.window.Acked() + 1, Last: in.window.Acked() + int64(n)}}
	}
	for _, r := range in.runs.items() {
		for _, e := range in.events.take(r.n) {
			attempts := r.attempts
			if len(back) < hand {
				attempts++ // it is in the batch in hand
			}
			back = append(back, Returned[T]{Event: e, Attempts: attempts})
		}
	}
	in.runs = queue[run]{}
	in.events.sweep()
	return back, had
}
