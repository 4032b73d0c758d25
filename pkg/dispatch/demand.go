package dispatch

import "github.com/sluicenet/sluice/internal/credit"

// Demand returns a dispatcher that gives each event to one subscriber: the one
// with the most credit, and among equals the one that has waited longest. Each
// delivery is a run of events, as long as that subscriber's credit allows. A
// subscriber is given at most one delivery in a round, and over time the load
// spreads by who asks.
func Demand[T any]() Dispatcher[T] { return &demand[T]{} }

type demand[T any] struct {
	oneLane[T]
	// subs has the one with the most credit first, since its rank is the least; equals in
	// the order in which they came to be equal.
	subs accounts
	sum  credit.Sum
	to   [1]ID
}

func (*demand[T]) Kind() string { return "demand" }

func (d *demand[T]) Join(id ID, terms Terms) error {
	if err := refuse(d.Kind(), terms, false); err != nil {
		return err
	}
	d.subs.join(id, 0)
	return nil
}

func (d *demand[T]) Leave(id ID) {
	if a := d.subs.leave(id); a != nil {
		d.sum.Take(-a.rank)
	}
}

func (d *demand[T]) Ask(id ID, n int64) {
	if a := d.subs.of[id]; a != nil {
		d.set(a, credit.Add(-a.rank, n))
	}
}

func (d *demand[T]) Revoke(id ID) int64 {
	a := d.subs.of[id]
	if a == nil {
		return 0
	}
	had := -a.rank
	d.set(a, 0)
	return had
}

func (d *demand[T]) Demand() int64 { return d.sum.Total() }

func (d *demand[T]) Next(waiting func(int) int) (Delivery, bool) {
	n, first := int64(waiting(0)), d.subs.first()
	if n == 0 || first == nil || first.rank == 0 {
		return Delivery{}, false
	}
	had := -first.rank
	n = min(n, had)
	d.to[0] = first.id
	d.set(first, credit.Sub(had, n))
	return Delivery{N: int(n), To: d.to[:]}, true
}

// set gives a subscriber a new credit and moves it behind its equals.
func (d *demand[T]) set(a *account, to int64) {
	d.sum.Take(-a.rank)
	d.sum.Add(to)
	d.subs.move(a, -to)
}
