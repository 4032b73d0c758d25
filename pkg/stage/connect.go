package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/dispatch"
)

// Connect declares a subscription of inlet to outlet. It is made when the inlet's
// stage is run: then Run reports what is wrong with it. An outlet on another node
// is waited for, for as long as it takes. One of a stage of this process is waited for until
// somebody runs that: after [Timeout] (5 s) the inlet's stage fails with ErrNotRun. Whoever
// subscribes by name ([Named]) finds what there is by then. Of a stage that runs already
// nothing can be declared: the subscription is refused, and [Subscribe] is the way.
func Connect[T any](outlet Outlet[T], to Inlet[T], opts ...Option) *Subscription {
	sub := newSubscription()
	l := to.inlet()
	if l == nil {
		sub.ended(Ending{Reason: Refused, Err: ErrNotMade})
		return sub
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened {
		sub.ended(Ending{Reason: Refused, Err: ErrAlreadyRun})
	}
	l.declared = append(l.declared, declaration[T]{outlet, sub, opts})
	return sub
}

// Subscribe subscribes inlet to outlet while the stages run, and waits until the
// producer has accepted. It returns ErrInvalidDemand, ErrSelfSubscription,
// ErrAlreadySubscribed, ErrEnded (of the outlet, or of the inlet), ErrBusy, the refusal of
// the producer, or ErrSubscribeTimeout after [Timeout] (5 s); after a timeout the
// subscription is withdrawn and cannot come to life later. What is not accepted is the
// caller's to deal with: no cancel mode applies to it, and the inlet's stage lives on.
// A stage of this process accepts also before it is run. When nobody has run it after the
// Timeout, counted from here or from when the inlet's stage is run, that one fails with
// ErrNotRun, as it does when the subscription is declared.
func Subscribe[T any](ctx context.Context, outlet Outlet[T], to Inlet[T], opts ...Option) (*Subscription, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if to.inlet() == nil {
		return nil, ErrNotMade
	}
	sub := newSubscription()
	ask, err := to.inlet().subscribe(outlet, sub, opts, true)
	if err != nil {
		return nil, err
	}
	ask()
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, ErrSubscribeTimeout)
	defer cancel()
	if err := sub.Ready(ctx); err != nil {
		withdrawn, why := to.inlet().withdraw(sub)
		if !withdrawn {
			to.inlet().expect(declaration[T]{outlet, sub, opts})
			return sub, nil // it was accepted at the last moment
		}
		if why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return nil, fmt.Errorf("subscribe to %q: %w", outlet.OutletName(), err)
	}
	to.inlet().expect(declaration[T]{outlet, sub, opts})
	return sub, nil
}

// Defaults of a subscription.
const (
	DefaultMaxDemand        = 1000
	DefaultMinDemand        = 750
	DefaultSubscribeTimeout = 5 * time.Second
	DefaultResumeWindow     = 30 * time.Second
)

// Option is a term of a subscription.
type Option interface{ apply(s *settings) }

type settings struct {
	terms          Terms
	mode           CancelMode
	timeout        time.Duration
	maxSet, minSet bool
	auto           *Auto
}

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// MaxDemand sets how many events may be asked for and not yet processed; default
// 1000. Where only the maximum is set, the minimum is three quarters of it.
func MaxDemand(n int) Option {
	return option(func(s *settings) { s.terms.MaxDemand, s.maxSet = int64(n), true })
}

// MinDemand sets the open demand at or below which the consumer asks again;
// default 750. Handlers get at most max-min events at once.
func MinDemand(n int) Option {
	return option(func(s *settings) { s.terms.MinDemand, s.minSet = int64(n), true })
}

// Manual leaves all asking to [Subscription.Ask]. The first ask belongs into the sink's
// OnSubscribed, those that follow into the handler, which finds its subscription with
// [Delivery], or wherever the pace comes from.
func Manual() Option { return option(func(s *settings) { s.terms.Manual = true }) }

// Unbounded switches flow control off: everything may be sent. What is not
// acknowledged is still bounded, at 100,000 events.
func Unbounded() Option {
	return option(func(s *settings) {
		s.terms.MaxDemand, s.terms.MinDemand, s.maxSet, s.minSet = credit.Unbounded, 0, true, true
	})
}

// AtMostOnce lets the events of a consumer that is gone be gone too. By default
// they go back to the producer and to another subscriber, marked.
func AtMostOnce() Option { return option(func(s *settings) { s.terms.AtMostOnce = true }) }

// InPartition subscribes to one partition of an outlet that has them.
func InPartition(p int) Option { return option(func(s *settings) { s.terms.Partition = p }) }

// Timeout is how long [Subscribe] waits for the producer's answer, and a subscription that
// is declared for its producer's stage to be run; default 5 s.
func Timeout(d time.Duration) Option { return option(func(s *settings) { s.timeout = max(d, 0) }) }

// ResumeWindow is how long a broken connection may take to come back before the
// subscription is lost; default 30 s.
func ResumeWindow(d time.Duration) Option {
	return option(func(s *settings) { s.terms.ResumeWindow = max(d, 0) })
}

// CancelMode says what a consumer does when one of its subscriptions ends. It is
// an option of the subscription.
type CancelMode int

const (
	// Permanent, the default: the consumer ends too, well when the subscription
	// ended well.
	Permanent CancelMode = iota
	// Transient: the consumer ends only when the subscription did not end well.
	Transient
	// Temporary: the consumer lives on.
	Temporary
	// Joint: the consumer ends, well, when the last of its joint subscriptions has ended
	// well, and at once when one of them did not.
	Joint
)

func (m CancelMode) apply(s *settings) { s.mode = m }

func newSettings(opts []Option) (settings, error) {
	s := settings{timeout: DefaultSubscribeTimeout, terms: Terms{
		MaxDemand: DefaultMaxDemand, MinDemand: DefaultMinDemand,
		Partition: dispatch.NoPartition, ResumeWindow: DefaultResumeWindow,
	}}
	for _, o := range opts {
		o.apply(&s)
	}
	if s.auto != nil {
		if err := s.size(); err != nil {
			return s, err
		}
	}
	if s.maxSet && !s.minSet {
		s.terms.MinDemand = s.terms.MaxDemand / 4 * 3
		s.terms.MinDemand += s.terms.MaxDemand % 4 * 3 / 4
	}
	if t := s.terms; t.MaxDemand < 1 || t.MinDemand < 0 || t.MinDemand >= t.MaxDemand {
		return s, &DemandError{t.MaxDemand, t.MinDemand}
	}
	return s, nil
}

func newWindow(t Terms) credit.Window { return credit.NewWindow(t.MaxDemand, t.MinDemand, t.Manual) }

// withdraw takes back a subscription that nobody waits for any more, and returns
// what it has waited for. It reports false, and changes nothing, when the producer
// has accepted it meanwhile.
func (l *inlet[T]) withdraw(sub *Subscription) (withdrawn bool, why error) {
	l.mu.Lock()
	if !sub.withdraw() {
		l.mu.Unlock()
		return false, nil
	}
	var ups []Upstream[T]
	for _, in := range l.core.subs {
		if in.sub == sub {
			ups = l.strike(in)
			break
		}
	}
	l.mu.Unlock()
	if len(ups) > 0 {
		if w, ok := ups[0].(Waiter); ok {
			why = w.Waiting()
		}
	}
	for _, up := range ups {
		up.Cancel(Cancel[T]{Reason: "withdrawn"})
	}
	return true, why
}
