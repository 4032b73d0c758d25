package stage_test

import (
	"context"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

func TestAllYieldsEverything(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, got := counter(3000), []int(nil)
		wait, _ := start(t, src)
		for event, err := range stage.All(t.Context(), src, stage.MaxDemand(100)) {
			require.NoError(t, err)
			got = append(got, event)
		}
		require.Equal(t, upTo(0, 3000), got)
		require.NoError(t, wait())
	})
}

// How a loop is left: what its body has had is processed, and the rest goes back. Only
// the event that a body panicked on counts as tried.
func TestAllIsLeft(t *testing.T) {
	f := func(name string, tried int, leave func(i int) bool, recovered any) {
		bubble(t, name, func(t *testing.T) {
			src := counter(20)
			wait, _ := start(t, src)
			next := 0
			loop := func() {
				defer func() { require.Equal(t, recovered, recover()) }()
				for event, err := range stage.All(t.Context(), src, stage.MaxDemand(20), stage.MinDemand(10)) {
					require.NoError(t, err)
					require.Equal(t, next, event)
					if event == 13 && leave(event) {
						next++
						break
					}
					next++
				}
			}
			done := make(chan struct{})
			go func() { defer close(done); loop() }()
			<-done
			r := read(t, src)
			require.NoError(t, r.Ask(100, 0))
			synctest.Wait()
			require.Equal(t, upTo(next, 20), r.events())
			require.Equal(t, tried, r.batches.get()[0].Attempts)
			require.NoError(t, r.Ack(int64(20-next)))
			require.NoError(t, wait())
		})
	}
	f("break", 0, func(int) bool { return true }, nil)
	f("panic", 1, func(int) bool { panic("boom") }, "boom")
	f("exit", 1, func(int) bool { runtime.Goexit(); return true }, nil)
}

// Leaving in the middle of a batch asks for nothing more.
func TestAllDoesNotAskWhenLeft(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		wait, stop := start(t, src.Outlet.(stage.Runner))
		for range stage.All[int](t.Context(), src, stage.MaxDemand(2), stage.MinDemand(1)) {
			break
		}
		require.Equal(t, []int64{2}, src.asks.get())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// When ctx ends, the loop does, also between the events of a batch, and the last pair
// says why.
func TestAllEndsWithItsContext(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		src := counter(1 << 30)
		wait, stop := start(t, src)
		var errs []error
		n := 0
		for _, err := range stage.All(ctx, src) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if n++; n == 7 {
				cancel(errOops)
			}
		}
		require.Equal(t, 7, n)
		require.Equal(t, []error{errOops}, errs)
		for _, err := range stage.All(ctx, src) { // it is over already
			require.ErrorIs(t, err, errOops)
			n++
		}
		require.Equal(t, 8, n)
		time.AfterFunc(time.Second, stop)
		ctx, cancelled := context.WithTimeout(t.Context(), time.Minute)
		defer cancelled()
		for _, err := range stage.All(ctx, idle()) { // it waits for an event
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// What ends a subscription badly, or refuses it, is the last pair.
func TestAllFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(context.Context, int) ([]int, error) { return []int{1}, errOops })
		wait, _ := start(t, src)
		var got []int
		var errs []error
		for event, err := range stage.All(t.Context(), src) {
			got, errs = append(got, event), append(errs, err)
		}
		require.Equal(t, []int{1, 0}, got)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], errOops)
		require.ErrorIs(t, wait(), errOops)
		for _, err := range stage.All(t.Context(), src) {
			require.ErrorIs(t, err, stage.ErrEnded)
			got = append(got, 2)
		}
		require.Equal(t, []int{1, 0, 2}, got)
	})
}

func TestFold(t *testing.T) {
	sum := func(a, b int) int { return a + b }
	bubble(t, "ITR-03 well", func(t *testing.T) {
		src := counter(101)
		wait, _ := start(t, src)
		got, err := stage.Fold(t.Context(), src, 1000, sum, stage.MaxDemand(7))
		require.NoError(t, err)
		require.Equal(t, 1000+5050, got)
		require.NoError(t, wait())
	})
	bubble(t, "ITR-05 the source fails", func(t *testing.T) {
		src := stage.NewSource(func(context.Context, int) ([]int, error) { return []int{1}, errOops })
		wait, _ := start(t, src)
		got, err := stage.Fold(t.Context(), src, 1000, sum)
		require.ErrorIs(t, err, errOops)
		require.Zero(t, got)
		require.ErrorIs(t, wait(), errOops)
	})
	bubble(t, "ITR-09 it panics", func(t *testing.T) {
		src := counter(10)
		wait, stop := start(t, src)
		_, err := stage.Fold(t.Context(), src, 0, func(int, int) int { panic("boom") })
		var p *stage.PanicError
		require.ErrorAs(t, err, &p)
		stop()
		<-src.Done()
		_ = wait()
	})
	bubble(t, "ITR-04 ctx ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := stage.Fold(ctx, idle(), 0, sum)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// ITR-06 and ITR-10: what refuses a fold is its error; a source that was shut down, or a
// stage that cancels, is an end like another.
func TestFoldEnds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		sum := func(a, b int) int { return a + b }
		_, err := stage.Fold(t.Context(), idle(), 0, sum, stage.MaxDemand(0))
		require.ErrorIs(t, err, stage.ErrInvalidDemand)
		_, err = stage.Fold(t.Context(), idle(), 0, sum, stage.InPartition(1))
		require.ErrorIs(t, err, dispatch.ErrUnsupported)
		src := stage.NewSource[int](nil)
		require.NoError(t, src.Push(1, 2, 3))
		wait, stop := start(t, src)
		time.AfterFunc(time.Second, stop)
		got, err := stage.Fold(t.Context(), src, 0, sum)
		require.NoError(t, err)
		require.Equal(t, 6, got)
		require.ErrorIs(t, wait(), context.Canceled)
		_, err = stage.Fold(t.Context(), src, 0, sum)
		require.ErrorIs(t, err, stage.ErrEnded)
	})
}

// ITR-07: a fold's terms are the defaults.
func TestFoldTerms(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1000)}
		wait, _ := start(t, src.Outlet.(stage.Runner))
		_, err := stage.Fold[int](t.Context(), src, 0, func(a, b int) int { return b })
		require.NoError(t, err)
		require.Equal(t, int64(stage.DefaultMaxDemand), src.asks.get()[0])
		require.NoError(t, wait())
	})
}

// ITR-01 and ITR-02: a sequence is stepped as far as it is asked for, and ends with its
// last events, also when these are none.
func TestFromSeqSteps(t *testing.T) {
	f := func(n int, want ...[]int) {
		bubble(t, "", func(t *testing.T) {
			taken := 0
			src := stage.FromSeq(func(yield func(int) bool) {
				for ; taken < n && yield(taken+1); taken++ {
				}
			})
			sink, got := batches()
			sub := stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(2))
			require.NoError(t, stage.Run(t.Context(), src, sink))
			require.Equal(t, want, got.get())
			require.Equal(t, stage.Completed, sub.Ending().Reason)
			require.Equal(t, n, taken)
		})
	}
	f(0)
	f(5, []int{1, 2, 3, 4}, []int{5})
	f(6, []int{1, 2, 3, 4}, []int{5, 6})
	bubble(t, "no further", func(t *testing.T) {
		taken := 0
		src := stage.FromSeq(func(yield func(int) bool) {
			for yield(taken) {
				taken++
			}
		})
		src.OnDiscard = func(reason string, n int) { t.Error(n, reason) }
		sink, _ := keeper()
		sub := stage.Connect(src, sink, stage.Manual())
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.NoError(t, sub.Ask(7))
		synctest.Wait()
		require.Equal(t, 6, taken, "it stands in the seventh")
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// EDG-08: what a consumer does to its batch is seen by nobody else, nor by the source.
func TestBatchesAreNotShared(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		events := upTo(0, 20)
		src := stage.NewSource(func(context.Context, int) ([]int, error) { return events, io.EOF })
		src.Dispatcher = dispatch.Broadcast[int]()
		spoiler := stage.NewSink(func(_ context.Context, batch []int) error {
			for i := range batch {
				batch[i] = -1
			}
			_ = append(batch, -2, -2, -2)
			return nil
		})
		sink, got := keeper()
		stage.Connect(src, spoiler, stage.MaxDemand(6))
		stage.Connect(stage.Where(src, even), sink, stage.MaxDemand(6))
		require.NoError(t, stage.Run(t.Context(), src, spoiler, sink))
		require.Equal(t, doubled(10), got.get())
		require.Equal(t, upTo(0, 20), events)
	})
}

// A source of a sequence hands on what it has when a value is long in coming, and lets
// go of the sequence when it ends early.
func TestFromSeq(t *testing.T) {
	bubble(t, "to the end", func(t *testing.T) {
		src := stage.FromSeq(slices.Values(upTo(0, 2500)))
		sink, got := keeper()
		stage.Connect(src, sink)
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, upTo(0, 2500), got.get())
	})
	bubble(t, "slow and endless", func(t *testing.T) {
		released := false
		src := stage.FromSeq(func(yield func(int) bool) {
			defer func() { released = true }()
			for i := 0; yield(i); i++ {
				time.Sleep(time.Second)
			}
		})
		var at []time.Duration
		begin := time.Now()
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			at = append(at, time.Since(begin).Truncate(time.Second))
			require.LessOrEqual(t, len(events), 2)
			return nil
		})
		stage.Connect(src, sink)
		wait, stop := start(t, src, sink)
		time.Sleep(4500 * time.Millisecond)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.GreaterOrEqual(t, len(at), 4)
		require.True(t, released)
	})
	bubble(t, "panic", func(t *testing.T) {
		src := stage.FromSeq(func(func(int) bool) { panic("boom") })
		sink, _ := keeper()
		stage.Connect(src, sink)
		require.ErrorContains(t, stage.Run(t.Context(), src, sink), "boom")
	})
	bubble(t, "never run", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, stage.FromSeq(slices.Values(upTo(0, 3))).Run(ctx), context.Canceled)
	})
}

func TestFromChan(t *testing.T) {
	bubble(t, "closed", func(t *testing.T) {
		c := make(chan int, 10)
		src := stage.FromChan(c)
		sink, got := keeper()
		stage.Connect(src, sink, stage.MaxDemand(4))
		wait, _ := start(t, src, sink)
		for i := range 20 {
			c <- i
			synctest.Wait()
			require.Len(t, got.get(), i+1, "what is there is handed on at once")
		}
		for i := range 9 {
			c <- 20 + i
		}
		close(c)
		require.NoError(t, wait())
		require.Equal(t, upTo(0, 29), got.get())
	})
	bubble(t, "stopped", func(t *testing.T) {
		src := stage.FromChan(make(chan int))
		sink, _ := keeper()
		stage.Connect(src, sink)
		wait, stop := start(t, src, sink)
		synctest.Wait()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, "ended", src.Inspect().State)
	})
}
