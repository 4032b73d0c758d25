package conform

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// CSV-31: whatever becomes of them, there are never more workers than slots.
func TestWorkersStayInTheirSlots(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter()
		var mu sync.Mutex
		now, most, began := 0, 0, 0
		w := stage.NewWorkers(func(context.Context, int) error {
			mu.Lock()
			now++
			began++
			most = max(most, now)
			kind := began % 3
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			switch kind {
			case 0:
				return errors.New("no")
			case 1:
				panic("no")
			}
			return nil
		})
		w.Restart, w.Tolerance = stage.OnFailure, stage.Tolerance{Restarts: 1 << 20}
		stage.Connect(src, w, stage.MaxDemand(3), stage.MinDemand(1))
		wait, stop := running(t, src, w)
		time.Sleep(time.Second)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, 3, most)
		require.Greater(t, began, 1000)
	})
}

// CSV-33: a producer that sends more than there are slots breaks the subscription.
func TestMoreEventsThanSlots(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		began := 0
		w := stage.NewPool(2, func(context.Context, int) error { began++; return nil })
		out := &excessive{}
		sub := stage.Connect(out, w)
		require.ErrorIs(t, w.Run(t.Context()), stage.ErrCreditExceeded)
		require.Equal(t, stage.Refused, sub.Ending().Reason)
		require.Zero(t, began)
	})
}

// excessive is an outlet that sends one event more than it is asked for.
type excessive struct{ to stage.Receiver[int] }

func (e *excessive) OutletName() string    { return "excessive" }
func (e *excessive) Done() <-chan struct{} { return nil }
func (e *excessive) Attach(_ stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	e.to = r
	r.Opened()
	return e, nil
}

func (e *excessive) Ask(n, _ int64, _ ...stage.Range) error {
	e.to.Deliver(stage.Batch[int]{Events: make([]int, n+1)})
	return nil
}
func (*excessive) Ack(int64, ...stage.Range) error { return nil }
func (*excessive) Cancel(stage.Cancel[int])        {}
func (*excessive) Revoke() int64                   { return 0 }
func (*excessive) Discard(int, string)             {}

// ITR-02 and ITR-11: a sequence is stepped as far as somebody wants more, and what is
// there is handed on when the next one is long in coming.
func TestSequenceIsSteppedByDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var taken diary[int]
		src := stage.FromSeq(func(yield func(int) bool) {
			for i := range 6 {
				if i == 3 {
					time.Sleep(time.Minute)
				}
				taken.add(i)
				if !yield(i) {
					return
				}
			}
		})
		sink, got := keeper()
		sub := stage.Connect(src, sink, stage.Manual())
		wait, _ := running(t, src, sink)
		synctest.Wait()
		require.Empty(t, taken.get())
		require.NoError(t, sub.Ask(2))
		synctest.Wait()
		require.Equal(t, []int{0, 1}, taken.get())
		require.Equal(t, []int{0, 1}, got.get())
		require.NoError(t, sub.Ask(3))
		time.Sleep(time.Second)
		require.Equal(t, []int{0, 1, 2}, taken.get())
		time.Sleep(time.Minute)
		require.Equal(t, []int{0, 1, 2, 3, 4}, got.get())
		require.NoError(t, sub.Ask(1))
		synctest.Wait()
		require.NoError(t, sub.Ask(1), "the end of it is asked for like an event")
		require.NoError(t, wait())
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, got.get())
	})
}

// INT-01, INT-03, INT-04 and INT-06: what can be seen of a pipeline that stands still.
func TestSnapshots(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Name, src.Dispatcher = "numbers", dispatch.Partition(2, pass)
		w := stage.NewPool(2, func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		w.Name, w.DrainTimeout = "pool", time.Second
		stage.Connect(src, w, stage.InPartition(0))
		require.NoError(t, src.Push(0, 1, 2, 3, 4))
		require.Equal(t, 5, src.Inspect().Buffered)
		wait, stop := running(t, src, w)
		synctest.Wait()
		i := src.Inspect()
		require.Equal(t, "source", i.Kind)
		require.Equal(t, "running", i.State)
		require.Equal(t, "partition", i.Dispatcher)
		require.Equal(t, 2, i.Lanes)
		require.Equal(t, 3, i.Buffered)
		require.Len(t, i.Subscribers, 1)
		s := i.Subscribers[0]
		require.Equal(t, "pool", s.Terms.Stage)
		require.Equal(t, []int64{2, 2, 0}, []int64{s.Granted, s.Sent, s.Acked})
		require.NoError(t, src.Push(6))
		require.Equal(t, 4, src.Inspect().Buffered)

		i = w.Inspect()
		require.Equal(t, "sink", i.Kind)
		require.Equal(t, 2, i.Workers)
		require.Equal(t, 2, w.Count())
		require.Len(t, w.Workers(), 2)
		require.Equal(t, "numbers", i.Subscriptions[0].Outlet)
		stop()
		require.ErrorIs(t, wait(), stage.ErrDrainTimeout)
		require.Equal(t, 6, int(src.Inspect().Discarded[stage.DiscardEnded]))
	})
}

// EDG-08: what a handler does to its batch is seen by nobody else.
func TestBatchesAreTheHandlersOwn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Dispatcher = dispatch.Broadcast[int]()
		var got diary[int]
		vandal := stage.NewSink(func(_ context.Context, events []int) error {
			for i := range events {
				events[i] = -1
			}
			_ = append(events[:0:len(events)], -2)
			return nil
		})
		reader := stage.NewSink(func(_ context.Context, events []int) error {
			time.Sleep(time.Second)
			got.add(events...)
			return nil
		})
		stage.Connect(src, vandal, stage.MaxDemand(10))
		stage.Connect(src, reader, stage.MaxDemand(10))
		wait, _ := running(t, src, vandal, reader)
		synctest.Wait()
		require.NoError(t, src.Push(1, 2, 3, 4, 5, 6, 7, 8))
		src.Finish()
		require.NoError(t, wait())
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, got.get())
	})
}

// DPX-18: a partition function may return any number.
func TestAnyNumberIsAPartition(t *testing.T) {
	d := dispatch.Partition(3, pass)
	for _, n := range []int{-1 << 63, -7, -1, 0, 5, 1<<63 - 1} {
		require.Contains(t, []int{0, 1, 2}, d.Lane(n))
	}
}
