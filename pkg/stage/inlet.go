package stage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/sluicenet/sluice/internal/credit"
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

// hook sets the hooks, the first time.
func (l *inlet[T]) hook(subscribed func(*Subscription) error, cancelled func(*Subscription, Ending) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hooked {
		l.hooked, l.onSubscribed, l.onCancelled = true, subscribed, cancelled
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

// subscribe makes a subscription, and returns what asks for its first events: nothing
// moves before that. With trial, what it ends by before it is accepted is nothing to the
// stage.
func (l *inlet[T]) subscribe(outlet Outlet[T], sub *Subscription, opts []Option, trial bool) (ask func(), err error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	s.terms.Stage = *l.name
	outlet, keep, err := resolve(outlet)
	if err != nil {
		return nil, err
	}
	in := &inflow[T]{outlet: outlet, name: outlet.OutletName(), terms: s.terms, mode: s.mode, sub: sub, trial: trial}
	if l.adapt != nil {
		if err := l.adapt(&s); err != nil {
			return nil, err
		}
		in.terms = s.terms
		in.lent = newLent[T]()
	}
	in.window = newWindow(s.terms)
	first := int64(0)
	if _, plural := outlet.(Plural[T]); plural {
		in.whole = &whole[T]{}
	} else {
		first = in.window.Start()
	}
	if err := l.admit(in); err != nil {
		return nil, err
	}
	// From here on the subscription may be accepted, and then a hook may use it at once:
	// what is asked for on it meanwhile goes out with the first ask.
	sub.bind(&edge[T]{l, in})
	up, err := in.attach(keep, &receiver[T]{l, in})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.strike(in)
		return nil, err
	}
	l.mu.Lock()
	in.up = up
	// The stage may have come to its end meanwhile, and then nobody else ends this.
	var late []Upstream[T]
	if l.closed || l.core.draining {
		late = l.strike(in)
	}
	leaving := in.leaving
	first = credit.Add(first, in.early)
	l.mu.Unlock()
	switch {
	case len(late) > 0:
		for _, up := range late {
			up.Cancel(Cancel[T]{Reason: "the stage has ended"})
		}
		return nil, ErrEnded
	case leaving:
		up.Cancel(Cancel[T]{Drain: true})
		first = 0
	case in.whole != nil:
		return func() { l.beginAll(in) }, nil
	}
	return func() {
		if first > 0 {
			// An error here has ended the subscription already: its Ended says so.
			_ = up.Ask(first, 0)
		}
	}, nil
}

// admit enters a subscription, so that a second one to the same outlet is refused.
func (l *inlet[T]) admit(in *inflow[T]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.core.draining {
		return ErrEnded
	}
	if same(in.outlet, l.owner) {
		return ErrSelfSubscription
	}
	over := 0
	for _, s := range l.core.subs {
		if same(s.outlet, in.outlet) && s.terms.Partition == in.terms.Partition {
			return fmt.Errorf("%w to %q", ErrAlreadySubscribed, in.name)
		}
		if s.ending != nil {
			over++
		}
	}
	if over >= maxCalls {
		return fmt.Errorf("%w: %d subscriptions that have ended", ErrBusy, over)
	}
	l.core.subs = append(l.core.subs, in)
	return nil
}

// same reports whether two outlets are one. An outlet of a user's own may be of a
// type that cannot be compared: such a one is like no other.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// strike takes out a subscription that nothing has arrived on, and returns what is to
// be cancelled; whatever still comes finds one that has ended. l.mu is held.
func (l *inlet[T]) strike(in *inflow[T]) (ups []Upstream[T]) {
	all := []*inflow[T]{in}
	if in.whole != nil {
		all = append(all, in.whole.members...)
	}
	for _, one := range all {
		one.ending = &Ending{Reason: Cancelled, Err: errors.New("withdrawn")}
		if one.up != nil {
			ups = append(ups, one.up)
		}
		if one.of != nil {
			l.core.take(one)
		}
	}
	l.core.forget(in)
	l.news.Broadcast()
	return ups
}

// open makes the declared subscriptions, in the order of their declaration.
func (l *inlet[T]) open() error {
	l.mu.Lock()
	l.opened = true
	declared := l.declared
	l.mu.Unlock()
	for _, d := range declared {
		ask, err := l.subscribe(d.outlet, d.sub, d.opts, false)
		if err != nil {
			d.sub.ended(Ending{Reason: Refused, Err: err})
			return fmt.Errorf("subscribe to %q: %w", d.outlet.OutletName(), err)
		}
		l.asks = append(l.asks, ask)
	}
	return nil
}

// ask asks for the first events of the declared subscriptions.
func (l *inlet[T]) ask() {
	for _, ask := range l.asks {
		ask()
	}
	l.asks = nil
}

// run works until the stage is over. When ctx ends, the stage is drained; when hard
// ends, which is the handler's, it stops at once.
func (l *inlet[T]) run(ctx, hard context.Context, ours func(any) bool) verdict {
	defer l.expect()()
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

// part says that subscriptions are over: to the user, and to a producer that did
// not end it itself. It returns how the stage ends if a hook wants that.
func (l *inlet[T]) part(ctx context.Context, ended []*inflow[T]) (v *verdict) {
	for _, in := range ended {
		if in.of == nil {
			in.sub.ended(*in.ending)
		}
		l.mu.Lock()
		up := in.up
		acked, done := in.progress()
		l.mu.Unlock()
		if in.broken && up != nil {
			up.Cancel(Cancel[T]{Acked: acked, Done: done, Reason: in.ending.Err.Error()})
		}
		if in.of != nil {
			l.share(in.of)
			continue
		}
		if l.onCancelled == nil || !in.sub.isOpen() {
			continue
		}
		if w := l.judge(ctx, guard(func() error { return l.onCancelled(in.sub, *in.ending) })); v == nil {
			v = w
		}
	}
	return v
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
	if l.meter.doing == blocked {
		l.meter.turn(idle)
	}
	l.mu.Unlock()
	for _, d := range asks {
		_ = d.up.Ask(d.ask, d.acked)
	}
}

// close ends the stage's subscriptions: what was not processed goes back. The first
// tried events in hand, and those that workers have, count as tried.
func (l *inlet[T]) close(v verdict, tried int) verdict {
	reason := "the stage has ended"
	if v.err != nil {
		reason = v.err.Error()
	}
	l.mu.Lock()
	l.closed = true
	l.meter.turn(off)
	subs := l.core.subs
	l.core.subs = nil
	ups := make([]Upstream[T], len(subs))
	for i, in := range subs {
		ups[i] = in.up
	}
	declared := l.declared
	l.mu.Unlock()
	for i, in := range subs {
		up := ups[i]
		if up == nil {
			continue // it is being made: whoever does that sees that the stage has ended
		}
		// First nothing more may come, and then goes back what has come: a delivery on
		// its way would be lost otherwise.
		up.Cancel(Cancel[T]{Drain: true, Reason: reason})
		l.mu.Lock()
		acked, done := in.progress()
		rest, had := l.core.rest(in, tried)
		c := Cancel[T]{Acked: acked, Done: done, Tried: had, Rest: rest, Reason: reason}
		if in.ending == nil {
			in.ending = &Ending{Reason: Cancelled, Err: v.err}
		}
		l.mu.Unlock()
		up.Cancel(c)
		if in.of == nil {
			in.sub.ended(*in.ending)
		}
	}
	for _, d := range declared {
		d.sub.ended(Ending{Reason: Cancelled, Err: v.err})
	}
	return v
}

// drain lets the stage come to an end: subscriptions to outlets that end with it
// (ours says which) run out, the others are cancelled, and what was sent is
// processed.
func (l *inlet[T]) drain(ours func(outlet any) bool) {
	l.mu.Lock()
	l.core.drain()
	var leave []Upstream[T]
	var cancels []Cancel[T]
	for _, in := range l.core.subs {
		if ours(in.outlet) || in.leaving || in.up == nil {
			continue
		}
		in.leaving = true
		acked, done := in.progress()
		leave = append(leave, in.up)
		cancels = append(cancels, Cancel[T]{Drain: true, Acked: acked, Done: done, Reason: "the stage is stopped"})
	}
	l.news.Broadcast()
	l.mu.Unlock()
	for i, up := range leave {
		up.Cancel(cancels[i])
	}
}

// stop ends the stage at once, with err.
func (l *inlet[T]) stop(err error) {
	l.mu.Lock()
	l.cut = err
	l.news.Broadcast()
	l.mu.Unlock()
}

// inspect adds what the inlet knows to i.
func (l *inlet[T]) inspect(i *Info) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i.In = l.core.processed
	i.DeadLettered = l.deadLettered
	i.discard(DiscardHandler, l.skipped)
	if r := l.retrying; r != nil && i.State == "running" {
		i.State, i.Err, i.Attempt = "retrying", r.err, r.attempt
	}
	i.Messages += l.core.calls
	l.meter.read(i)
	for _, in := range l.core.subs {
		if in.whole == nil || len(in.whole.members) == 0 {
			i.Subscriptions = append(i.Subscriptions, in.info())
		}
	}
}

func (in *inflow[T]) info() SubscriptionInfo {
	w := &in.window
	state := "flowing"
	switch {
	case !in.sub.isOpen() || in.of != nil && !in.open:
		state = "waiting"
	case in.leaving || in.ending != nil:
		state = "draining"
	case w.Held() > 0:
		state = "held"
	case in.events.len() > 0 || in.lent != nil && len(in.lent.out) > 0:
		state = "in-flight"
	case in.terms.Manual && w.Sent() == w.Received():
		state = "no-demand"
	}
	i := SubscriptionInfo{
		Outlet: in.name, Publisher: in.from.Publisher, Terms: in.terms, State: state,
		Granted: w.Sent(), Received: w.Received(), Acked: w.Acked(),
		Credit: credit.Sub(w.Sent(), w.Received()), Held: w.Held(), Pending: w.Received() - w.Acked(), LeftOut: in.leftOut,
	}
	if in.lent != nil {
		i.Acked = in.lent.acked // and what is finished above it is not pending
	}
	i.Open = credit.Sub(i.Granted, w.Acked())
	if _, here := in.up.(*upstream[T]); here {
		i.Sent = i.Received // handing over does not wait
	}
	if in.whole != nil {
		return in.whole.sum(i)
	}
	return i
}
