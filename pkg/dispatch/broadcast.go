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
	subs []account
	to   []ID
}

func (*broadcast[T]) Kind() string { return "broadcast" }

func (d *broadcast[T]) Join(id ID, terms Terms) error {
	if err := refuse(d.Kind(), terms, true); err != nil {
		return err
	}
	d.subs = append(d.subs, account{id: id})
	d.to = append(d.to, id)
	return nil
}

func (d *broadcast[T]) Leave(id ID) {
	d.subs = slices.DeleteFunc(d.subs, func(a account) bool { return a.id == id })
	d.to = slices.DeleteFunc(d.to, func(b ID) bool { return b == id })
}

func (d *broadcast[T]) Ask(id ID, n int64) {
	if i := find(d.subs, id); i >= 0 {
		d.subs[i].credit = credit.Add(d.subs[i].credit, n)
	}
}

func (d *broadcast[T]) Revoke(id ID) int64 {
	i := find(d.subs, id)
	if i < 0 {
		return 0
	}
	had := d.subs[i].credit
	d.subs[i].credit = 0
	return had
}

// Demand is the part of the credit that all have in common.
func (d *broadcast[T]) Demand() int64 {
	if len(d.subs) == 0 {
		return 0
	}
	least := d.subs[0].credit
	for _, a := range d.subs[1:] {
		least = min(least, a.credit)
	}
	return least
}

func (d *broadcast[T]) Next(waiting func(int) int) (Delivery, bool) {
	n := min(int64(waiting(0)), d.Demand())
	if n == 0 {
		return Delivery{}, false
	}
	for i := range d.subs {
		d.subs[i].credit = credit.Sub(d.subs[i].credit, n)
	}
	return Delivery{N: int(n), To: d.to}, true
}
