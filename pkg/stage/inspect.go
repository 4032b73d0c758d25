package stage

import (
	"github.com/sluicenet/sluice/internal/credit"
)

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
	if in.auto != nil {
		i.Demand, i.Why = in.auto.Value(), in.auto.Why()
	}
	return i
}

// inspect adds what the outlet knows to i.
func (o *outlet[T]) inspect(i *Info) {
	if o == nil {
		return
	}
	o.lock()
	defer o.mu.Unlock()
	i.Dispatcher, i.Lanes = o.core.dispatcher.Kind(), o.core.dispatcher.Lanes()
	i.Out, i.Buffered, i.Unmet = o.core.produced, o.core.store.len(), o.core.unmet
	i.Departed = o.core.departed
	i.Messages += o.calls.len()
	i.Waiting = make([]int, len(o.core.store.lanes))
	for l := range i.Waiting {
		i.Waiting[l] = o.core.store.waiting(l)
	}
	o.meter.read(i)
	for reason, n := range o.core.discarded {
		i.discard(reason, n)
	}
	for _, s := range o.core.subs {
		i.Subscribers = append(i.Subscribers, s.info(*o.name, &o.core))
	}
}

func (s *outflow[T]) info(outlet string, p *producer[T]) SubscriptionInfo {
	l := &s.ledger
	i := SubscriptionInfo{
		Outlet: outlet, Terms: s.terms, State: s.state(p),
		Granted: l.Granted(), Sent: l.Sent(), Acked: l.Acked(),
		Open: credit.Sub(l.Granted(), l.Acked()), Credit: l.Credit(),
		Held: p.heldOf(s), Pending: l.Unacked(), LeftOut: s.leftOut,
	}
	if s.terms.Node == "" {
		i.Received = i.Sent // handing over does not wait
	}
	return i
}

// state is what an operator sees of a subscription from the producer's side.
func (s *outflow[T]) state(p *producer[T]) string {
	switch {
	case p.closing != nil || s.left:
		return "draining"
	case p.heldOf(s) > 0:
		return "held"
	case s.ledger.Credit() == 0:
		return "no-demand"
	case p.store.len() == 0:
		return "no-events"
	}
	return "flowing"
}
