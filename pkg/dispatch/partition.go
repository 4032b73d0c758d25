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
	return &partition[T]{by: by, parts: make([]part, max(count, 1)), of: map[ID]*part{}}
}

type partition[T any] struct {
	by    func(T) int
	parts []part
	of    map[ID]*part
	sum   credit.Sum
	to    [1]ID
}

// part is a partition, and what its subscriber has asked for and was not given. Its ID is
// 0 where there is none.
type part struct {
	id     ID
	credit int64
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
	d.parts[p].id = id
	d.of[id] = &d.parts[p]
	return nil
}

func (d *partition[T]) Leave(id ID) {
	if p := d.of[id]; p != nil {
		d.set(p, 0)
		p.id = 0
		delete(d.of, id)
	}
}

func (d *partition[T]) Ask(id ID, n int64) {
	if p := d.of[id]; p != nil {
		d.set(p, credit.Add(p.credit, n))
	}
}

func (d *partition[T]) Revoke(id ID) int64 {
	p := d.of[id]
	if p == nil {
		return 0
	}
	had := p.credit
	d.set(p, 0)
	return had
}

func (d *partition[T]) Demand() int64 { return d.sum.Total() }

func (d *partition[T]) set(p *part, credit int64) {
	d.sum.Take(p.credit)
	d.sum.Add(credit)
	p.credit = credit
}

func (d *partition[T]) Next(waiting func(int) int) (Delivery, bool) {
	for lane := range d.parts {
		p := &d.parts[lane]
		if p.credit == 0 {
			continue
		}
		n := min(int64(waiting(lane)), p.credit)
		if n == 0 {
			continue
		}
		d.set(p, credit.Sub(p.credit, n))
		d.to[0] = p.id
		return Delivery{Lane: lane, N: int(n), To: d.to[:]}, true
	}
	return Delivery{}, false
}
