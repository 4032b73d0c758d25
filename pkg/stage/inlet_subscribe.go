package stage

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/sluicenet/sluice/internal/credit"
)

type declaration[T any] struct {
	outlet Outlet[T]
	sub    *Subscription
	opts   []Option
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
	if !l.lendable(outlet) {
		return nil, ErrLent
	}
	in := &inflow[T]{outlet: outlet, name: outlet.OutletName(), terms: s.terms, mode: s.mode, sub: sub, trial: trial}
	if l.adapt != nil {
		if err := l.adapt(&s); err != nil {
			return nil, err
		}
		in.terms = s.terms
		in.lent = newLent[T]()
	}
	in.window, in.auto = newWindow(s.terms), s.sizer()
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
