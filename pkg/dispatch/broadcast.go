package dispatch

import (
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
)

// Broadcast returns a dispatcher that gives each event to every subscriber, in
// the same order and at the pace of the slowest: as many events go out as every
// subscriber has asked for. A subscriber that joins holds the others up until it
// asks, and gets nothing that went out before.
//
// A subscriber may have a selector: it is given the events that its selector
// keeps, and what the selector drops is asked for again on its behalf, so that
// the common pace does not depend on who keeps how much.
func Broadcast[T any]() Dispatcher[T] { return &broadcast[T]{} }

type broadcast[T any] struct {
	oneLane[T]
	// subs has the one with the least credit first. What goes out goes to all of them: so
	// their accounts hold the credit and what has gone out before, and stay as they are.
	subs accounts
	out  int64
	to   []ID // in the order in which they joined
}

func (*broadcast[T]) Kind() string { return "broadcast" }

func (d *broadcast[T]) Join(id ID, terms Terms) error {
	if err := refuse(d.Kind(), terms, true); err != nil {
		return err
	}
	d.subs.join(id, d.out)
	d.to = append(d.to, id)
	return nil
}

func (d *broadcast[T]) Leave(id ID) {
	if d.subs.leave(id) == nil {
		return
	}
	if i, ok := slices.BinarySearch(d.to, id); ok { // IDs grow
		d.to = slices.Delete(d.to, i, i+1)
	}
}

func (d *broadcast[T]) Ask(id ID, n int64) {
	if a := d.subs.of[id]; a != nil {
		d.subs.move(a, credit.Add(d.out, credit.Add(d.credit(a), n)))
	}
}

func (d *broadcast[T]) Revoke(id ID) int64 {
	a := d.subs.of[id]
	if a == nil {
		return 0
	}
	had := d.credit(a)
	d.subs.move(a, d.out)
	return had
}

// credit is what a subscriber has asked for and was not given.
func (d *broadcast[T]) credit(a *account) int64 { return credit.Sub(a.rank, d.out) }

// Demand is the part of the credit that all have in common.
func (d *broadcast[T]) Demand() int64 {
	if first := d.subs.first(); first != nil {
		return d.credit(first)
	}
	return 0
}

func (d *broadcast[T]) Next(waiting func(int) int) (Delivery, bool) {
	n := min(int64(waiting(0)), d.Demand())
	if n == 0 {
		return Delivery{}, false
	}
	d.out += n
	return Delivery{N: int(n), To: d.to}, true
}
