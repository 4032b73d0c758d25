package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// inlet is the loop around a consumer: a lock, and the goroutine that runs the
// handler.
//
// The lock is a leaf: nobody is called while it is held. So a producer may hand
// over a delivery while it holds its own lock.
type inlet[T any] struct {
	name  *string
	owner any // the stage

	mu       sync.Mutex
	news     sync.Cond // something arrived, or it is time to stop
	core     consumer[T]
	cut      error // stop at once, and why
	closed   bool  // the stage has ended
	opened   bool  // the declared subscriptions are being made
	declared []declaration[T]
	asks     []func() // the first of the declared subscriptions
	expected expected[T]
	meter    meter
	// how its batches are handled, and what has become of those that could not be.
	how          *handling[T]
	retrying     *retrying
	skipped      int64
	deadLettered int64

	// Hooks of the user's, which run on the stage's goroutine. They are set before the
	// first subscription and never again. With onCancelled, that decides instead of the
	// cancel modes.
	hooked       bool
	onSubscribed func(*Subscription) error
	onCancelled  func(*Subscription, Ending) error
	// adapt is set by a stage that handles events out of order: it accepts the terms of
	// a subscription, or changes them.
	adapt func(*settings) error
	// borrows is set by a stage that keeps no event when its handler is done with it.
	borrows bool
}

func newInlet[T any](name *string, owner any) *inlet[T] {
	l := &inlet[T]{name: name, owner: owner}
	l.news.L = &l.mu
	return l
}

// lendable reports whether the events of an outlet may go into the stage.
func (l *inlet[T]) lendable(outlet Outlet[T]) bool {
	lender, ok := outlet.(Lender)
	return !ok || l.borrows || !lender.Lends()
}

// hook sets the hooks, and whether the stage borrows, the first time.
func (l *inlet[T]) hook(subscribed func(*Subscription) error, cancelled func(*Subscription, Ending) error, borrows bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hooked {
		l.hooked, l.onSubscribed, l.onCancelled, l.borrows = true, subscribed, cancelled, borrows
	}
}

// receiver is the consumer of one subscription, as its producer sees it.
type receiver[T any] struct {
	l  *inlet[T]
	in *inflow[T]
}

func (r *receiver[T]) Opened() {
	in := r.in
	if in.of != nil {
		r.l.accepted(in)
		in = in.of
	}
	if !in.sub.opened() {
		return
	}
	r.l.mu.Lock()
	in.trial = false
	if r.l.onCancelled != nil {
		in.mode = Temporary
	}
	r.l.mu.Unlock()
	if hook := r.l.onSubscribed; hook != nil {
		r.l.must(func(context.Context) error { return hook(in.sub) })
	}
}

func (r *receiver[T]) Deliver(b Batch[T]) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.in.trial = false // a producer that delivers has accepted
	if r.in.auto != nil {
		r.l.arrives(r.in, int64(len(b.Events)), b.Bytes)
	}
	if !r.l.core.deliver(r.in, b) && r.in.ending == nil {
		r.in.broken = true
		r.l.core.end(r.in, Ending{Reason: Refused, Err: fmt.Errorf("%w: %d more, %d open",
			ErrCreditExceeded, len(b.Events), r.in.window.Sent()-r.in.window.Received())})
	}
	r.l.news.Signal()
}

func (r *receiver[T]) Ended(e Ending) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.core.end(r.in, e)
	if r.in.trial {
		r.in.sub.ended(e)
	}
	r.l.news.Signal()
}

// run works until the stage is over. When ctx ends, the stage is drained; when hard
// ends, which is the handler's, it stops at once.
func (l *inlet[T]) run(ctx, hard context.Context, ours func(any) bool) verdict {
	defer l.expectAll()()
	defer when(ctx, func() { l.drain(ours) })()
	defer when(hard, func() { l.stop(context.Cause(hard)) })()
	return l.work(hard)
}

// work deals with batches until the stage is over, and returns how it ended.
func (l *inlet[T]) work(ctx context.Context) verdict {
	about := &handlerContext{Context: ctx}
	var t task[T]
	for {
		if ctx.Err() != nil {
			return l.close(verdict{Failed, context.Cause(ctx)}, 0)
		}
		var ended []*inflow[T]
		var v *verdict
		if t, ended, v = l.next(t.events[:0]); len(ended) > 0 {
			if hooked := l.part(about, ended); hooked != nil {
				return l.close(*hooked, 0)
			}
		}
		switch {
		case v != nil:
			return l.close(*v, 0)
		case t.call != nil:
			about.set(nil, Member{}, 0, run{})
			if v := l.judge(ctx, guard(func() error { return t.call(about) })); v != nil {
				return l.close(*v, 0)
			}
		case t.in != nil:
			if v, tried := l.batch(ctx, about, t); v != nil {
				return l.close(*v, tried)
			}
			if l.how.after != nil {
				l.how.after()
			}
		}
	}
}

// selected is what a selector on this side keeps of a batch, and where in the batch that
// is; at is nil where there is no selector.
func (l *inlet[T]) selected(t task[T]) (kept []T, at []int, err error) {
	if t.in.keep == nil {
		return t.events, nil, nil
	}
	kept, at = t.events[:0], make([]int, 0, len(t.events)+1)
	err = guard(func() error {
		for i, e := range t.events {
			if t.in.keep(e) {
				kept, at = append(kept, e), append(at, i)
			}
		}
		return nil
	})
	l.mu.Lock()
	t.in.leftOut += int64(len(t.events) - len(kept))
	l.mu.Unlock()
	return kept, at, err
}

// judge says how the stage ends when user code has returned err, or nil when it
// goes on.
func (l *inlet[T]) judge(ctx context.Context, err error) *verdict {
	switch {
	case err == nil:
		return nil
	case err == Stop: //nolint:errorlint // a wrapped Stop is an error like another
		return &verdict{reason: Completed}
	case context.Cause(ctx) == ErrDrainTimeout && errors.Is(err, ctx.Err()):
		err = ErrDrainTimeout
	}
	return &verdict{Failed, err}
}

// next waits for something to do, for subscriptions to end, or for the stage to be
// over. It appends a batch to dst: the handler gets a copy, its own for the call, so
// that what it does to it cannot reach what goes back to the producer if it fails.
func (l *inlet[T]) next(dst []T) (task[T], []*inflow[T], *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.cut != nil {
			return task[T]{events: dst}, nil, &verdict{Failed, l.cut}
		}
		t, ended, ok := l.core.next()
		t.events = append(dst, t.events...)
		if ok || len(ended) > 0 || l.core.over != nil {
			l.meter.turn(busy)
			return t, ended, l.core.over
		}
		if l.core.holds() {
			l.meter.turn(blocked)
		} else {
			l.meter.turn(idle)
		}
		l.news.Wait()
	}
}

// post lets the stage's goroutine make a call, after everything that has arrived.
func (l *inlet[T]) post(f call) error {
	if l == nil {
		return ErrNotMade
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrEnded
	case l.core.calls >= maxCalls:
		return ErrBusy
	}
	l.core.post(f)
	l.news.Signal()
	return nil
}

// must is post for hooks, whose number is limited where subscriptions begin. It reports
// false when the stage has ended.
func (l *inlet[T]) must(f call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.core.post(f)
	l.news.Signal()
	return true
}

// done books n events of the batch as processed, and asks or acknowledges.
func (l *inlet[T]) done(n int, hold bool) {
	l.mu.Lock()
	l.core.hand.in.resize(int64(n))
	in, ask, ack := l.core.done(n, hold)
	in.asked(ask)
	acked, up := in.window.Acked(), in.up
	l.mu.Unlock()
	// An error here has ended the subscription already: its Ended says so.
	if ask > 0 {
		_ = up.Ask(ask, acked)
	} else if ack {
		_ = up.Ack(acked)
	}
}

// release asks for what was held back.
func (l *inlet[T]) release() {
	l.mu.Lock()
	type due struct {
		up         Upstream[T]
		ask, acked int64
	}
	var asks []due
	for _, in := range l.core.subs {
		if n := in.release(); n > 0 {
			in.asked(n)
			asks = append(asks, due{in.up, n, in.window.Acked()})
		}
	}
	if l.meter.doing == blocked {
		l.meter.turn(idle)
	}
	l.mu.Unlock()
	for _, d := range asks {
		_ = d.up.Ask(d.ask, d.acked)
	}
}
