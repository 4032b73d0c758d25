package dispatch

import (
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
)

// Demand returns a dispatcher that gives each event to one subscriber: the one
// with the most credit, and among equals the one that has waited longest. Each
// delivery is a run of events, as long as that subscriber's credit allows. A
// subscriber is given at most one delivery in a round, and over time the load
// spreads by who asks.
func Demand[T any]() Dispatcher[T] { return &demand[T]{} }

type demand[T any] struct {
	oneLane[T]
	// subs is sorted by credit, the most first; equals stand in the order in which
	// they came to be equal.
	subs []account
	to   [1]ID
}

// account is the credit of one subscriber.
type account struct {
	id     ID
	credit int64
}

func (*demand[T]) Kind() string { return "demand" }

func (d *demand[T]) Join(id ID, terms Terms) error {
	if err := refuse(d.Kind(), terms, false); err != nil {
		return err
	}
	d.subs = append(d.subs, account{id: id})
	return nil
}

func (d *demand[T]) Leave(id ID) {
	d.subs = slices.DeleteFunc(d.subs, func(a account) bool { return a.id == id })
}

func (d *demand[T]) Ask(id ID, n int64) {
	if i := find(d.subs, id); i >= 0 {
		d.set(i, credit.Add(d.subs[i].credit, n))
	}
}

func (d *demand[T]) Revoke(id ID) int64 {
	i := find(d.subs, id)
	if i < 0 {
		return 0
	}
	had := d.subs[i].credit
	d.set(i, 0)
	return had
}

func (d *demand[T]) Demand() int64 {
	var sum int64
	for _, a := range d.subs {
		sum = credit.Add(sum, a.credit)
	}
	return sum
}

func (d *demand[T]) Next(waiting func(int) int) (Delivery, bool) {
	n := int64(waiting(0))
	if n == 0 || len(d.subs) == 0 || d.subs[0].credit == 0 {
		return Delivery{}, false
	}
	first := d.subs[0]
	n = min(n, first.credit)
	d.to[0] = first.id
	d.set(0, credit.Sub(first.credit, n))
	return Delivery{N: int(n), To: d.to[:]}, true
}

// set gives the i-th subscriber a new credit and moves it behind its equals.
func (d *demand[T]) set(i int, to int64) {
	a := d.subs[i]
	a.credit = to
	d.subs = slices.Delete(d.subs, i, i+1)
	at, _ := slices.BinarySearchFunc(d.subs, to, func(b account, c int64) int {
		if b.credit >= c {
			return -1
		}
		return 1
	})
	d.subs = slices.Insert(d.subs, at, a)
}

// find returns the index of a subscriber, or -1.
func find(subs []account, id ID) int {
	return slices.IndexFunc(subs, func(a account) bool { return a.id == id && id != 0 })
}
