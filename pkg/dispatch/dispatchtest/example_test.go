package dispatchtest_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/dispatch/dispatchtest"
	"github.com/sluicenet/sluice/pkg/stage"
)

// roundRobin gives the subscribers an event each, in turns, and passes by those who
// have asked for none.
type roundRobin[T any] struct {
	subs []member // who is first has waited longest
}

type member struct {
	id     dispatch.ID
	credit int64
}

func (*roundRobin[T]) Kind() string { return "round robin" }
func (*roundRobin[T]) Lanes() int   { return 1 }
func (*roundRobin[T]) Lane(T) int   { return 0 }

func (r *roundRobin[T]) Join(id dispatch.ID, terms dispatch.Terms) error {
	if terms.Partition != dispatch.NoPartition || terms.Selector {
		return dispatch.ErrUnsupported
	}
	r.subs = append(r.subs, member{id: id})
	return nil
}

func (r *roundRobin[T]) Leave(id dispatch.ID) {
	r.subs = slices.DeleteFunc(r.subs, func(m member) bool { return m.id == id })
}

func (r *roundRobin[T]) Ask(id dispatch.ID, n int64) {
	for i := range r.subs {
		if m := &r.subs[i]; m.id == id {
			m.credit = sum(m.credit, n)
		}
	}
}

func (r *roundRobin[T]) Revoke(id dispatch.ID) (had int64) {
	for i := range r.subs {
		if m := &r.subs[i]; m.id == id {
			had, m.credit = m.credit, 0
		}
	}
	return had
}

func (r *roundRobin[T]) Demand() (n int64) {
	for _, m := range r.subs {
		n = sum(n, m.credit)
	}
	return n
}

func (r *roundRobin[T]) Next(waiting func(lane int) int) (dispatch.Delivery, bool) {
	if waiting(0) == 0 {
		return dispatch.Delivery{}, false
	}
	for i, m := range r.subs {
		if m.credit > 0 {
			m.credit--
			r.subs = append(slices.Delete(r.subs, i, i+1), m)
			return dispatch.Delivery{N: 1, To: []dispatch.ID{m.id}}, true
		}
	}
	return dispatch.Delivery{}, false
}

// sum adds what may be as much as an int64 holds.
func sum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func TestRoundRobin(t *testing.T) {
	dispatchtest.Test(t, func() dispatch.Dispatcher[int] { return &roundRobin[int]{} })
}

// A dispatcher of one's own in a stage.
func Example() {
	next := 0
	numbers := stage.NewSource(func(_ context.Context, demand int) (events []int, err error) {
		for ; next < 6 && len(events) < demand; next++ {
			events = append(events, next)
		}
		return events, io.EOF
	})
	numbers.Dispatcher = &roundRobin[int]{}

	got := make([][]int, 2)
	stages := []stage.Runner{numbers}
	for i := range got {
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			got[i] = append(got[i], events...)
			return nil
		})
		stage.Connect(numbers, sink)
		stages = append(stages, sink)
	}
	err := stage.Run(context.Background(), stages...)
	fmt.Println(got, err)
	// Output: [[0 2 4] [1 3 5]] <nil>
}
