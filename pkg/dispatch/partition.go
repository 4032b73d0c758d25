package dispatch

import (
	"fmt"

	"github.com/sluicenet/sluice/internal/credit"
)

// Partition returns a dispatcher with count partitions, at least 1. by gives each
// event a number, any number: its partition is that number modulo count, from 0.
// Each partition has a lane of its own and at most one subscriber, which names it
// when it subscribes. What a partition has not asked for waits in its lane, also
// when its subscriber leaves, and the others pass it by.
//
// What waits is as good as delivered to the stage, which makes more only when more
// is wanted than waits. So a partition that nobody takes from does stop the flow, at
// the latest when as much waits for it as the others want together: that bounds the
// memory, and nothing is lost.
//
// A panic of by ends the stage that dispatches.
func Partition[T any](count int, by func(event T) int) Dispatcher[T] {
	return &partition[T]{by: by, parts: make([]account, max(count, 1))}
}

type partition[T any] struct {
	by func(T) int
	// parts holds the subscriber of each partition; its ID is 0 where there is none.
	parts []account
	to    [1]ID
}

func (*partition[T]) Kind() string { return "partition" }

func (d *partition[T]) Lanes() int { return len(d.parts) }

func (d *partition[T]) Lane(event T) int {
	n := len(d.parts)
	return (d.by(event)%n + n) % n
}

func (d *partition[T]) Join(id ID, terms Terms) error {
	p := terms.Partition
	switch {
	case terms.Selector:
		return fmt.Errorf("%w: %s has no selectors", ErrUnsupported, d.Kind())
	case p == NoPartition:
		return fmt.Errorf("%w from 0 to %d", ErrNoPartition, len(d.parts)-1)
	case p < 0 || p >= len(d.parts):
		return fmt.Errorf("%w: %d is not from 0 to %d", ErrPartitionRange, p, len(d.parts)-1)
	case d.parts[p].id != 0:
		return fmt.Errorf("%w: %d", ErrPartitionTaken, p)
	}
	d.parts[p] = account{id: id}
	return nil
}

func (d *partition[T]) Leave(id ID) {
	if p := find(d.parts, id); p >= 0 {
		d.parts[p] = account{}
	}
}

func (d *partition[T]) Ask(id ID, n int64) {
	if p := find(d.parts, id); p >= 0 {
		d.parts[p].credit = credit.Add(d.parts[p].credit, n)
	}
}

func (d *partition[T]) Revoke(id ID) int64 {
	p := find(d.parts, id)
	if p < 0 {
		return 0
	}
	had := d.parts[p].credit
	d.parts[p].credit = 0
	return had
}

func (d *partition[T]) Demand() int64 {
	var sum int64
	for _, a := range d.parts {
		sum = credit.Add(sum, a.credit)
	}
	return sum
}

func (d *partition[T]) Next(waiting func(int) int) (Delivery, bool) {
	for lane := range d.parts {
		a := &d.parts[lane]
		n := min(int64(waiting(lane)), a.credit)
		if n == 0 {
			continue
		}
		a.credit = credit.Sub(a.credit, n)
		d.to[0] = a.id
		return Delivery{Lane: lane, N: int(n), To: d.to[:]}, true
	}
	return Delivery{}, false
}
