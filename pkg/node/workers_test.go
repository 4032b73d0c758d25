package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

var errOops = errors.New("oops")

// hands are workers on a node whose test says when and how each ends.
type hands struct {
	record // the events that were finished
	*stage.Workers[int]
	mu   sync.Mutex
	ends map[int]chan error
	seen map[int]int // attempts of the events that workers were given
}

func newHands() *hands {
	h := &hands{ends: map[int]chan error{}, seen: map[int]int{}}
	h.Workers = stage.NewWorkers(func(ctx context.Context, event int) error {
		d, _ := stage.Delivery(ctx)
		h.mu.Lock()
		h.seen[event] = d.Attempts
		h.mu.Unlock()
		select {
		case err := <-h.end(event):
			if err == nil {
				h.add([]int{event})
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	h.Restart, h.Tolerance = stage.OnFailure, stage.Tolerance{Restarts: -1}
	return h
}

func (h *hands) end(event int) chan error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends[event] == nil {
		h.ends[event] = make(chan error)
	}
	return h.ends[event]
}

func (h *hands) has() map[int]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[int]int{}
	for e, attempts := range h.seen {
		all[e] = attempts
	}
	return all
}

// acked is what the one producer's end knows to be processed of its one subscription.
func acked(n *Node) (int64, bool) {
	for _, p := range n.publications() {
		for _, row := range p.rows() {
			return row.GetAcked(), true
		}
	}
	return 0, false
}

// Workers at the other end of a network finish in any order, and what they have finished
// does not come back, whatever becomes of the others: their stage fails, and another one
// gets exactly those, marked. The rest follows, and the source ends when all is processed.
func TestWorkersOutOfOrder(t *testing.T) {
	const count = 40
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)

	b := testNode("b", Config{Join: join(a)})
	first := newHands()
	stage.Connect(Outlet(b, ints), first.Workers, stage.MaxDemand(10), stage.MinDemand(5))
	runB := start(t, b, first.Workers)
	eventually(t, "all slots are taken", func() bool { return first.Count() == 10 })
	for _, e := range []int{9, 1, 3, 4, 0} { // five free slots are asked for
		first.end(e) <- nil
	}
	eventually(t, "the free slots are taken", func() bool { return first.Count() == 10 })
	eventually(t, "the producer knows what is processed up to where", func() bool {
		at, ok := acked(a)
		return ok && at == 2
	})
	first.end(12) <- nil
	first.end(5) <- errOops
	err := runB.wait()
	require.ErrorIs(t, err, stage.ErrTooManyRestarts)
	require.ErrorIs(t, err, errOops)

	c := testNode("c", Config{Join: join(a)})
	second := newHands()
	stage.Connect(Outlet(c, ints), second.Workers, stage.MaxDemand(count), stage.MinDemand(0))
	runC := start(t, c, second.Workers)
	eventually(t, "the rest has come", func() bool { return len(second.has()) == count-6 })
	want := map[int]int{}
	for e := range count {
		want[e] = 0
		if e < 15 {
			want[e] = 1 // a worker has had it
		}
	}
	for _, e := range []int{0, 1, 3, 4, 9, 12} {
		delete(want, e)
	}
	require.Equal(t, want, second.has())
	for e := range want {
		second.end(e) <- nil
	}
	require.NoError(t, runA.wait())
	require.NoError(t, runC.wait())
	once(t, count, &first.record, &second.record)
	require.Empty(t, source.Inspect().Discarded)
}

// A connection that breaks again and again does not disturb workers: every event is
// handled once.
func TestWorkersOverABrokenConnection(t *testing.T) {
	const count = 3000
	a, link := linked(t, "a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := through(t, a, link, source)

	b := testNode("b", Config{Join: join(a)})
	var got record
	pool := stage.NewPool(16, func(_ context.Context, event int) error {
		time.Sleep(time.Duration(event*7919%5) * time.Millisecond)
		got.add([]int{event})
		return nil
	})
	stage.Connect(Outlet(b, ints), pool)
	runB := start(t, b, pool)
	for got.len() < count {
		time.Sleep(50 * time.Millisecond)
		link.Cut()
		link.Heal()
	}
	require.NoError(t, runA.wait())
	require.NoError(t, runB.wait())
	once(t, count, &got)
	require.Zero(t, pool.Inspect().Failed)
}
