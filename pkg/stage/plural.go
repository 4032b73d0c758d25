package stage

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
)

// Plural is an [Outlet] that several producers offer under one name, which come and
// go. A stage subscribes to it once; each producer that is followed is a member of that
// subscription, with positions and a demand of its own: MaxDemand holds for each.
// Members end in silence. What counts for the stage is the end of the whole.
type Plural[T any] interface {
	Outlet[T]
	// AttachAll begins a subscription of the whole. It returns at once, with the
	// errors of Attach. Of what it returns, Cancel says that no more members are wanted:
	// those that are there are cancelled by themselves. The rest does nothing.
	AttachAll(terms Terms, m Members[T]) (Upstream[T], error)
}

// Member names one of the producers behind a [Plural]: who it is, and a number that no
// other member in this process has, from 1.
type Member struct {
	Publisher string
	Session   uint64
}

// Members is a subscription to a [Plural], as the outlet sees it. Its methods may be
// called from any goroutine.
type Members[T any] interface {
	// Join enters a member, whose producer is up. It is asked for its
	// first events once the whole has begun, maybe before Join returns. What comes from
	// it goes to the receiver. ok is false when the stage wants no more members.
	Join(from Member, up Upstream[T]) (r Receiver[T], ok bool)
	// Ended is the last call: all members have ended, and so has the whole.
	Ended(e Ending)
}

// whole is what an inflow has more that stands for several members. It takes part in
// the consumer as any other, so that its end has its turn behind all that has come,
// but nothing is delivered on it. The members are inflows too, which are Temporary.
type whole[T any] struct {
	members []*inflow[T] // those whose end is not reached
	begun   bool         // members are asked for their first events
	ended   bool         // its turn to end has come, and waits for members
	// pool is what was asked for on the subscription and is not asked of any member.
	pool int64
	gone SubscriptionInfo // the sums of those that are no members any more
}

// gathering is a whole as its outlet sees it.
type gathering[T any] struct {
	l  *inlet[T]
	in *inflow[T]
}

func (g *gathering[T]) Join(from Member, up Upstream[T]) (Receiver[T], bool) {
	l, of := g.l, g.in
	l.mu.Lock()
	if l.closed || l.core.draining || of.leaving || of.ending != nil {
		l.mu.Unlock()
		return nil, false
	}
	in := &inflow[T]{
		outlet: of.outlet, name: of.name, terms: of.terms, mode: Temporary, keep: of.keep, sub: of.sub,
		of: of, from: from, up: up, window: newWindow(of.terms), auto: of.auto.Anew(),
	}
	if l.adapt != nil {
		in.lent = newLent[T]()
	}
	in.early = in.window.Start()
	l.core.subs = append(l.core.subs, in)
	of.whole.members = append(of.whole.members, in)
	begun := of.whole.begun
	l.mu.Unlock()
	if begun {
		in.begin()
	}
	return &receiver[T]{l, in}, true
}

func (g *gathering[T]) Ended(e Ending) { (&receiver[T]{g.l, g.in}).Ended(e) }

// begin asks a member for its first events. It is called once.
func (in *inflow[T]) begin() {
	if in.early > 0 {
		// An error here has ended the subscription already: its Ended says so.
		_ = in.up.Ask(in.early, 0)
	}
}

// beginAll asks the members for their first events, now and from now on.
func (l *inlet[T]) beginAll(in *inflow[T]) {
	l.mu.Lock()
	in.whole.begun = true
	members := slices.Clone(in.whole.members)
	l.mu.Unlock()
	for _, m := range members {
		m.begin()
	}
}

// accepted books that a member was accepted: it may be given of what was asked for.
func (l *inlet[T]) accepted(in *inflow[T]) {
	l.mu.Lock()
	in.open = true
	due := in.of.whole.pool > 0
	l.mu.Unlock()
	if due {
		l.must(func(context.Context) error { l.share(in.of); return nil })
	}
}

// share asks the members for what is in the pool.
func (l *inlet[T]) share(in *inflow[T]) {
	type due struct {
		up         Upstream[T]
		ask, acked int64
	}
	var asks []due
	l.mu.Lock()
	w := in.whole
	members := slices.DeleteFunc(slices.Clone(w.members), func(m *inflow[T]) bool {
		return !m.open || m.leaving || m.ending != nil
	})
	if w.pool > 0 && len(members) > 0 && !in.leaving && in.ending == nil && !l.closed {
		owing := make([]int64, len(members))
		for i, m := range members {
			owing[i] = credit.Sub(m.window.Sent(), m.window.Received())
		}
		for i, n := range divide(w.pool, owing) {
			if n > 0 {
				members[i].window.Ask(n)
				asks = append(asks, due{members[i].up, n, members[i].window.Acked()})
			}
		}
		if w.pool != credit.Unbounded {
			w.pool = 0
		}
	}
	l.mu.Unlock()
	for _, d := range asks {
		_ = d.up.Ask(d.ask, d.acked)
	}
}

// divide says who is asked for how much of n, so that those who owe the least get it
// first and owe as equally much as can be. What is unbounded is so for each.
func divide(n int64, owing []int64) []int64 {
	out := make([]int64, len(owing))
	if n == credit.Unbounded {
		for i := range out {
			out[i] = n
		}
		return out
	}
	order := make([]int, len(owing))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(max(owing[a]-owing[b], -1), 1)) })
	// The first k are filled up to a level; the level is raised to that of the next one
	// as long as n suffices.
	level, k := int64(0), 0
	for k < len(order) {
		level = owing[order[k]]
		for k < len(order) && owing[order[k]] == level {
			k++
		}
		if k == len(order) {
			break
		}
		step := owing[order[k]] - level
		if step > n/int64(k) {
			break
		}
		for _, i := range order[:k] {
			out[i] += step
		}
		n -= step * int64(k)
	}
	for j, i := range order[:k] {
		out[i] += n / int64(k)
		if int64(j) < n%int64(k) {
			out[i]++
		}
	}
	return out
}

// part books that the end of a member is reached: what it was asked for and has not
// brought is to be asked of others.
func (w *whole[T]) part(in *inflow[T]) {
	w.members = slices.DeleteFunc(w.members, func(m *inflow[T]) bool { return m == in })
	i := in.info()
	if in.terms.Manual {
		switch {
		case in.window.Sent() == credit.Unbounded:
			w.pool = credit.Unbounded
		default:
			w.pool = credit.Add(w.pool, in.window.Sent()-in.window.Acked())
		}
		i.Granted = i.Received // the rest is asked of others
	}
	i.Open, i.Credit, i.Held, i.Pending, i.Demand = 0, 0, 0, 0, 0
	w.gone = added(w.gone, i)
}

// sum is what the subscription as a whole looks like.
func (w *whole[T]) sum(i SubscriptionInfo) SubscriptionInfo {
	i = added(i, w.gone)
	for _, m := range w.members {
		one := m.info()
		i = added(i, one)
		i.Why = cmp.Or(i.Why, one.Why)
		if i.State == "flowing" {
			i.State = one.State // of the first that says more
		}
	}
	return i
}

func added(a, b SubscriptionInfo) SubscriptionInfo {
	for x, y := range map[*int64]int64{
		&a.Granted: b.Granted, &a.Sent: b.Sent, &a.Received: b.Received, &a.Acked: b.Acked,
		&a.Open: b.Open, &a.Credit: b.Credit, &a.Held: b.Held, &a.Pending: b.Pending, &a.LeftOut: b.LeftOut,
		&a.Demand: b.Demand,
	} {
		*x = credit.Add(*x, y)
	}
	return a
}
