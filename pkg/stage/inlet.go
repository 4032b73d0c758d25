package stage

import (
	"context"
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
	cut      bool // stop at once: the drain has taken too long
	closed   bool // the stage has ended
	declared []declaration[T]
}

type declaration[T any] struct {
	outlet Outlet[T]
	sub    *Subscription
	opts   []Option
}

func newInlet[T any](name *string, owner any) *inlet[T] {
	l := &inlet[T]{name: name, owner: owner}
	l.news.L = &l.mu
	return l
}

// receiver is the consumer of one subscription, as its producer sees it.
type receiver[T any] struct {
	l  *inlet[T]
	in *inflow[T]
}

func (r *receiver[T]) Opened() { r.in.sub.opened() }

func (r *receiver[T]) Deliver(b Batch[T]) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.l.closed {
		return
	}
	if !r.l.core.deliver(r.in, b) {
		r.l.core.end(r.in, Ending{Reason: Refused, Err: fmt.Errorf("%w: %d more, %d open",
			ErrCreditExceeded, len(b.Events), r.in.window.Sent()-r.in.window.Received())})
	}
	r.l.news.Signal()
}

func (r *receiver[T]) Ended(e Ending) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.core.end(r.in, e)
	r.l.news.Signal()
	if r.l.closed {
		r.in.sub.ended(e)
	}
}

// subscribe makes a subscription and asks for the first events.
func (l *inlet[T]) subscribe(outlet Outlet[T], sub *Subscription, opts []Option) error {
	s, err := newSettings(opts)
	if err != nil {
		return err
	}
	s.terms.Stage = *l.name
	in := &inflow[T]{outlet: outlet, terms: s.terms, mode: s.mode, sub: sub}
	in.window = newWindow(s.terms)
	if err := l.admit(in); err != nil {
		return err
	}
	up, err := outlet.Attach(in.terms, &receiver[T]{l, in})
	if err != nil {
		l.withdraw(in)
		return err
	}
	l.mu.Lock()
	in.up = up
	sub.bind(&edge[T]{l, in})
	first := in.window.Start()
	l.mu.Unlock()
	if first > 0 {
		return up.Ask(first, 0)
	}
	return nil
}

// admit enters a subscription, so that a second one to the same outlet is refused.
func (l *inlet[T]) admit(in *inflow[T]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrEnded
	}
	if any(in.outlet) == l.owner {
		return ErrSelfSubscription
	}
	for _, s := range l.core.subs {
		if s.outlet == in.outlet && s.terms.Partition == in.terms.Partition {
			return fmt.Errorf("%w to %q", ErrAlreadySubscribed, in.outlet.OutletName())
		}
	}
	l.core.subs = append(l.core.subs, in)
	return nil
}

func (l *inlet[T]) withdraw(in *inflow[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.core.subs {
		if s == in {
			l.core.subs = append(l.core.subs[:i:i], l.core.subs[i+1:]...)
			return
		}
	}
}

// open makes the declared subscriptions, in the order of their declaration.
func (l *inlet[T]) open() error {
	for _, d := range l.declared {
		if err := l.subscribe(d.outlet, d.sub, d.opts); err != nil {
			return fmt.Errorf("subscribe to %q: %w", d.outlet.OutletName(), err)
		}
	}
	return nil
}

// run works until the stage is over. When ctx ends, the stage is drained; when cut
// is closed, it stops at once.
func (l *inlet[T]) run(ctx context.Context, ours func(any) bool, cut <-chan struct{},
	handle func(context.Context, []T) error, hold bool, after func()) verdict {
	hctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	unwatch := context.AfterFunc(ctx, func() {
		l.drain(ours)
		select {
		case <-cut:
			l.stop()
			cancel()
		case <-hctx.Done():
		}
	})
	defer unwatch()
	return l.work(hctx, handle, hold, after)
}

// work hands batches to handle until the stage is over, and returns how it ended.
// With hold, asks are kept back until release is called, and after is called
// after each batch. ctx is the handler's.
func (l *inlet[T]) work(ctx context.Context, handle func(context.Context, []T) error, hold bool, after func()) verdict {
	var events []T
	for {
		var v *verdict
		if events, v = l.next(events[:0]); v != nil {
			return l.close(*v, false)
		}
		n := len(events)
		err := handle(ctx, events)
		clear(events)
		if err != nil && err != Stop { //nolint:errorlint // a wrapped Stop is an error like another
			return l.close(verdict{Failed, err}, true)
		}
		l.done(n, hold)
		if err == Stop { //nolint:errorlint // see above
			return l.close(verdict{reason: Completed}, false)
		}
		if after != nil {
			after()
		}
	}
}

// next waits for a batch, or for the stage to be over. It appends the batch to dst:
// the handler gets a copy, its own for the call, so that what it does to it cannot
// reach what goes back to the producer if it fails.
func (l *inlet[T]) next(dst []T) ([]T, *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.cut {
			return nil, &verdict{Failed, ErrDrainTimeout}
		}
		events, ended, ok := l.core.next()
		for _, e := range ended {
			e.sub.ended(*e.ending)
		}
		if ok {
			return append(dst, events...), nil
		}
		if l.core.over != nil {
			return nil, l.core.over
		}
		l.news.Wait()
	}
}

// done books n events of the batch as processed, and asks or acknowledges.
func (l *inlet[T]) done(n int, hold bool) {
	l.mu.Lock()
	in, ask, ack := l.core.done(n, hold)
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
			asks = append(asks, due{in.up, n, in.window.Acked()})
		}
	}
	l.mu.Unlock()
	for _, d := range asks {
		_ = d.up.Ask(d.ask, d.acked)
	}
}

// close ends the stage's subscriptions: what was not processed goes back.
func (l *inlet[T]) close(v verdict, tried bool) verdict {
	l.mu.Lock()
	l.closed = true
	subs := l.core.subs
	cancels := make([]Cancel[T], len(subs))
	for i, in := range subs {
		cancels[i] = Cancel[T]{Acked: in.window.Acked(), Rest: l.core.rest(in, tried)}
		if v.err != nil {
			cancels[i].Reason = v.err.Error()
		}
	}
	l.core.subs = nil
	l.mu.Unlock()
	for i, in := range subs {
		if in.up != nil {
			in.up.Cancel(cancels[i])
		}
	}
	return v
}

// drain lets the stage come to an end: subscriptions to outlets that end with it
// (ours says which) run out, the others are cancelled, and what was sent is
// processed.
func (l *inlet[T]) drain(ours func(outlet any) bool) {
	l.mu.Lock()
	l.core.draining = true
	if len(l.core.subs) == 0 && l.core.over == nil {
		l.core.over = &verdict{reason: Shutdown}
	}
	var leave []Upstream[T]
	var acked []int64
	for _, in := range l.core.subs {
		if ours(in.outlet) || in.leaving || in.up == nil {
			continue
		}
		in.leaving = true
		leave, acked = append(leave, in.up), append(acked, in.window.Acked())
	}
	l.news.Broadcast()
	l.mu.Unlock()
	for i, up := range leave {
		up.Cancel(Cancel[T]{Drain: true, Acked: acked[i], Reason: "the stage is stopped"})
	}
}

// stop ends the stage at once.
func (l *inlet[T]) stop() {
	l.mu.Lock()
	l.cut = true
	l.news.Broadcast()
	l.mu.Unlock()
}

// inspect adds what the inlet knows to i.
func (l *inlet[T]) inspect(i *Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i.In = l.core.processed
	for _, in := range l.core.subs {
		i.Subscriptions = append(i.Subscriptions, in.info())
	}
}

func (in *inflow[T]) info() SubscriptionInfo {
	w := &in.window
	state := "flowing"
	switch {
	case !in.sub.isOpen():
		state = "waiting"
	case in.leaving || in.ending != nil:
		state = "draining"
	case w.Held() > 0:
		state = "held"
	case in.events.len() > 0:
		state = "in-flight"
	}
	return SubscriptionInfo{
		Outlet: in.outlet.OutletName(), Terms: in.terms, State: state,
		Granted: w.Sent(), Received: w.Received(), Acked: w.Acked(),
	}
}
