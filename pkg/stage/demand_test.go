package stage_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// The asks and batches of a source that always fills and a sink that lets it.
func TestDemandCycle(t *testing.T) {
	f := func(name string, opts []stage.Option, asks []int64, batches []int) {
		bubble(t, name, func(t *testing.T) {
			src := &spy{Outlet: counter(1 << 30)}
			var sizes log[int]
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				sizes.add(len(events))
				if len(sizes.get()) == len(batches) {
					return stage.Stop
				}
				synctest.Wait() // the source has answered
				return nil
			})
			stage.Connect[int](src, sink, opts...)
			require.NoError(t, stage.Run(t.Context(), src.Outlet.(stage.Runner), sink))
			require.Equal(t, batches, sizes.get())
			require.Equal(t, asks, src.asks.get()[:len(asks)])
		})
	}
	both := func(max, min int) []stage.Option {
		return []stage.Option{stage.MinDemand(min), stage.MaxDemand(max)}
	}
	f("DEM-02", nil, []int64{1000, 250, 250, 250}, []int{250, 250, 250, 250, 250})
	f("DEM-04", []stage.Option{stage.MaxDemand(10)}, []int64{10, 3, 3, 3}, []int{3, 3, 3, 1, 3})
	f("DEM-05", both(10, 5), []int64{10, 5, 5, 5}, []int{5, 5, 5, 5, 5})
	f("DEM-06", both(6, 2), []int64{6, 4, 6, 4}, []int{4, 2, 4, 4, 2, 4})
	f("DEM-07", both(1, 0), []int64{1, 1, 1, 1}, []int{1, 1, 1, 1, 1})
	f("DEM-08", both(100, 80), []int64{100, 20, 20}, []int{20, 20, 20, 20, 20, 20})
	f("DEM-09", both(100, 20), []int64{100, 80, 100, 80}, []int{80, 20, 80, 80, 20, 80})
	f("DEM-10", both(20, 0), []int64{20, 20, 20}, []int{20, 20, 20, 20})
}

// DEM-15: what is received and not processed is not asked for again.
func TestSlowSinkThrottlesSource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var demands log[int]
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			demands.add(n)
			return make([]int, n), nil
		})
		sink := stage.NewSink(func(ctx context.Context, _ []int) error {
			time.Sleep(100 * time.Millisecond)
			return ctx.Err()
		})
		stage.Connect(src, sink, stage.MaxDemand(10), stage.MinDemand(5))
		wait, stop := start(t, src, sink)
		time.Sleep(99 * time.Millisecond)
		require.Equal(t, []int{10}, demands.get())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, []int{10, 5}, demands.get())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// DEM-18, DEM-19 and DEM-20, as the io.Reader rule has it: a source that returns less
// than is wanted is called again for the rest, and for nothing beyond it.
func TestSourceIsCalledForTheRest(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var demands log[int]
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			demands.add(n)
			return []int{n}, nil
		})
		r := read(t, src)
		wait, stop := start(t, src)
		require.NoError(t, r.Ask(3, 0))
		synctest.Wait()
		require.Equal(t, []int{3, 2, 1}, demands.get())
		require.NoError(t, r.Ask(2, 3))
		synctest.Wait()
		require.Equal(t, []int{3, 2, 1, 2, 1}, demands.get())
		r.Cancel(stage.Cancel[int]{Acked: 5})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// DEM-18: a source that had nothing is asked again with the next ask, also when that
// ask is covered by what one that left has asked for (DDX-08).
func TestSourceThatHadNothingIsAskedAgain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var demands log[int]
		ready := false
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			demands.add(n)
			if !ready {
				return nil, nil
			}
			return make([]int, n), nil
		})
		wait, stop := start(t, src)
		a := read(t, src)
		require.NoError(t, a.Ask(10, 0))
		synctest.Wait()
		a.Cancel(stage.Cancel[int]{})
		synctest.Wait()
		require.Equal(t, []int{10}, demands.get())
		ready = true
		b := read(t, src)
		require.NoError(t, b.Ask(4, 0))
		synctest.Wait()
		require.Len(t, b.events(), 4)
		b.Cancel(stage.Cancel[int]{Acked: 4})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// What the departed have asked for is produced as far as there is room: a source that
// makes what it is told loses nothing.
func TestDepartedDoNotOverrunTheBuffer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var demands log[int]
		ready := false
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			demands.add(n)
			if !ready {
				return nil, nil
			}
			return make([]int, n), nil
		})
		src.Buffer = stage.KeepLast(7)
		wait, stop := start(t, src)
		for range 20 {
			a := read(t, src)
			require.NoError(t, a.Ask(1000, 0))
			a.Cancel(stage.Cancel[int]{})
		}
		synctest.Wait()
		ready = true
		b := read(t, src)
		require.NoError(t, b.Ask(4, 0))
		synctest.Wait()
		require.Equal(t, 11, demands.get()[len(demands.get())-1], "4 that are wanted, and 7 to keep")
		require.Len(t, b.events(), 4)
		require.Equal(t, 7, src.Inspect().Buffered)
		require.Empty(t, src.Inspect().Discarded)
		b.Cancel(stage.Cancel[int]{Acked: 4})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, map[string]int64{stage.DiscardEnded: 7}, src.Inspect().Discarded)
	})
}

// DEM-23 and BUF-01: who makes more than is wanted keeps it, and delivers it later.
func TestOverproducing(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		next := 0
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			events := upTo(next, next+5*n)
			next += 5 * n
			if next > 500 {
				return events, io.EOF
			}
			return events, nil
		})
		var got log[int]
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			require.LessOrEqual(t, len(events), 6)
			got.add(events...)
			return nil
		})
		stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(2))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, upTo(0, next), got.get())
	})
}

// BAT-04: in manual mode nothing moves by itself, and deliveries are not cut.
func TestManual(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, sizes := counter(1<<30), log[int]{}
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			sizes.add(len(events))
			return nil
		})
		sub := stage.Connect(src, sink, stage.Manual())
		require.ErrorIs(t, sub.Ask(1), stage.ErrNotBegun, "it has not begun")
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.Empty(t, sizes.get())
		require.NoError(t, sub.Ask(700))
		synctest.Wait()
		require.Equal(t, []int{700}, sizes.get())
		require.ErrorIs(t, sub.Ask(0), stage.ErrAskNotPositive) // MAN-04
		require.ErrorIs(t, sub.Ask(-3), stage.ErrAskNotPositive)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.ErrorIs(t, sub.Ask(1), stage.ErrEnded)
	})
}

// An ask of everything switches flow control off, for as long as it lasts: the source
// is called with what it can make at once, again and again.
func TestUnboundedDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, got := counter(1_000_000), 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			got += len(events)
			return nil
		})
		sub := stage.Connect(src, sink, stage.MaxDemand(1<<63-1), stage.MinDemand(0))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, 1_000_000, got)
		require.Equal(t, stage.Completed, sub.Ending().Reason)
	})
}

// DDX-16: load goes to who asks; a slow one holds up nobody.
func TestFanOutByDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(5000)
		fast, got := keeper()
		slow := stage.NewSink(func(ctx context.Context, events []int) error {
			got.add(events...)
			time.Sleep(time.Hour)
			return nil
		})
		stage.Connect(src, slow, stage.MaxDemand(10))
		stage.Connect(src, fast, stage.MaxDemand(10))
		require.NoError(t, stage.Run(t.Context(), src, slow, fast))
		require.ElementsMatch(t, upTo(0, 5000), got.get()) // DDX-04
	})
}

// DBX-01, DBX-02 and DBX-15: everybody gets everything in the same order, and at the
// pace of the slowest.
func TestBroadcast(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(2000)
		src.Dispatcher = dispatch.Broadcast[int]()
		fast, got := keeper()
		var slow log[int]
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			require.LessOrEqual(t, len(got.get()), len(slow.get())+10, "the fast one runs ahead")
			slow.add(events...)
			time.Sleep(time.Second)
			return nil
		})
		stage.Connect(src, sink, stage.MaxDemand(10), stage.MinDemand(0))
		stage.Connect(src, fast, stage.MaxDemand(20), stage.MinDemand(0))
		require.NoError(t, stage.Run(t.Context(), src, sink, fast))
		require.Equal(t, upTo(0, 2000), got.get())
		require.Equal(t, got.get(), slow.get())
	})
}

// DBX-06 and DBX-16: who joins and does not ask holds up everybody, until it leaves.
func TestBroadcastWaitsForAll(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(30)
		src.Dispatcher = dispatch.Broadcast[int]()
		sink, got := keeper()
		silent, none := keeper()
		stage.Connect(src, sink)
		sub := stage.Connect(src, silent, stage.Manual())
		wait, _ := start(t, src, sink, silent)
		time.Sleep(time.Hour)
		require.Empty(t, got.get())
		require.True(t, sub.Cancel())
		require.NoError(t, wait())
		require.Equal(t, upTo(0, 30), got.get())
		require.Empty(t, none.get())
	})
}

// DPX-01, DPX-12: each partition has its own events, in order; one consumer may take
// several.
func TestPartitions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(3000)
		src.Dispatcher = dispatch.Partition(3, func(i int) int { return i })
		zero, evens := keeper()
		others, rest := keeper()
		stage.Connect(src, zero, stage.InPartition(0))
		stage.Connect(src, others, stage.InPartition(1), stage.Transient)
		stage.Connect(src, others, stage.InPartition(2), stage.Transient)
		wait, stop := start(t, src, zero, others)
		time.Sleep(time.Second)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Len(t, evens.get(), 1000)
		for i, e := range evens.get() {
			require.Equal(t, 3*i, e)
		}
		require.Len(t, rest.get(), 2000)
	})
}

// A sink that stops asks for nothing more, also where an ask would be due.
func TestStopDoesNotAsk(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		sink := stage.NewSink(func(context.Context, []int) error { return stage.Stop })
		stage.Connect[int](src, sink, stage.MaxDemand(2), stage.MinDemand(1))
		require.NoError(t, stage.Run(t.Context(), src.Outlet.(stage.Runner), sink))
		require.Equal(t, []int64{2}, src.asks.get())
	})
}
