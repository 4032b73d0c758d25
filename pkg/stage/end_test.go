package stage_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// END-01 and END-02: the last events come with io.EOF, and none is lost.
func TestLastEventsComeWithEOF(t *testing.T) {
	f := func(name string, batches ...[]int) {
		bubble(t, name, func(t *testing.T) {
			var all []int
			for _, b := range batches {
				all = append(all, b...)
			}
			src := stage.NewSource(func(context.Context, int) ([]int, error) {
				b := batches[0]
				if batches = batches[1:]; len(batches) == 0 {
					return b, io.EOF
				}
				return b, nil
			})
			sink, got := keeper()
			sub := stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(2))
			require.NoError(t, stage.Run(t.Context(), src, sink))
			require.Equal(t, all, got.get())
			require.Equal(t, stage.Ending{Reason: stage.Completed}, sub.Ending())
			require.Equal(t, int64(len(all)), sink.Inspect().In)
		})
	}
	f("END-01", []int{1, 2, 3})
	f("END-02", []int{1, 2, 3, 4, 5, 6}, []int{7, 8})
	f("END-04 more than is wanted", upTo(0, 50))
	f("END-03 fewer than are wanted", []int{1}, nil)
	f("END-06 nothing", nil)
}

// A decoder's EOF, wrapped, must not end a source well.
func TestWrappedEOFFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(context.Context, int) ([]int, error) {
			return []int{1}, fmt.Errorf("decode: %w", io.EOF)
		})
		sink, got := keeper()
		sub := stage.Connect(src, sink)
		err := stage.Run(t.Context(), src, sink)
		require.ErrorIs(t, err, io.EOF)
		require.ErrorContains(t, err, "stage \"source-")
		require.Equal(t, []int{1}, got.get(), "END-08: what was sent comes before the end")
		require.Equal(t, stage.Failed, sub.Ending().Reason) // END-07
	})
}

// A wrapped Stop is an error like another.
func TestWrappedStopFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		sink := stage.NewSink(func(context.Context, []int) error { return fmt.Errorf("no: %w", stage.Stop) })
		stage.Connect(src, sink)
		require.ErrorIs(t, stage.Run(t.Context(), src, sink), stage.Stop)
		require.Equal(t, "failed", sink.Inspect().State)
	})
}

// END-16 and BAT-06: a sink that stops has processed its batch; what came behind it
// goes back, and to another one, marked.
func TestSinkStops(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(100)
		other := read(t, src)
		sink := stage.NewSink(func(context.Context, []int) error { return stage.Stop })
		stage.Connect(src, sink, stage.MaxDemand(8))
		waiting, _ := keeper() // it keeps Run going
		wait, stop := start(t, src, sink, waiting)
		synctest.Wait()
		require.Equal(t, int64(2), sink.Inspect().In)
		require.NoError(t, other.Ask(100, 0))
		synctest.Wait()
		require.Equal(t, upTo(2, 100), other.events())
		first := other.batches.get()[0]
		require.True(t, first.Redelivered)
		require.Zero(t, first.Attempts)
		require.Len(t, first.Events, 6)
		require.NoError(t, other.Ack(98))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// DSC-08 and BUF-20: who ends and is not subscribed to waits for as long as the drain
// timeout, and then gives up what it holds, by name.
func TestEndWithoutSubscriber(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(context.Context, int) ([]int, error) { return upTo(0, 50), io.EOF })
		src.DrainTimeout = time.Minute
		lost := map[string]int{}
		src.OnDiscard = func(reason string, n int) { lost[reason] += n }
		r := read(t, src)
		require.NoError(t, r.Ask(10, 0))
		wait, _ := start(t, src)
		synctest.Wait()
		r.Cancel(stage.Cancel[int]{Acked: 10})
		begin := time.Now()
		require.NoError(t, wait())
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, map[string]int{stage.DiscardEnded: 40}, lost)
		_, err := src.Attach(stage.Terms{Partition: dispatch.NoPartition}, r)
		require.ErrorIs(t, err, stage.ErrEnded)
		<-src.Done()
	})
}

// An end that comes by itself is as patient as its consumers.
func TestEndWaitsForASlowSink(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, n := counter(100), 0
		src.DrainTimeout = time.Second
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			time.Sleep(time.Hour)
			n += len(events)
			return nil
		})
		stage.Connect(src, sink, stage.MaxDemand(2))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, 100, n)
		require.Empty(t, src.Inspect().Discarded)
	})
}

// When ctx ends, sources stop, and everything that was produced is processed.
func TestDrain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		produced := 0
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			events := upTo(produced, produced+2*n)
			produced += 2 * n
			return events, nil
		})
		g := stage.NewGate(stage.Map(double))
		var got log[int]
		sink := stage.NewSink(func(ctx context.Context, events []int) error {
			require.NoError(t, ctx.Err(), "the handler goes on while the stage drains")
			time.Sleep(time.Second)
			got.add(events...)
			return nil
		})
		stage.Connect(src, g, stage.MaxDemand(20))
		stage.Connect(g, sink, stage.MaxDemand(20))
		wait, stop := start(t, src, g, sink)
		time.Sleep(5500 * time.Millisecond)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, doubled(produced), got.get())
		require.Empty(t, src.Inspect().Discarded)
	})
}

// A source that waits for events is stopped through its ctx, and that is no failure.
func TestDrainStopsAWaitingSource(t *testing.T) {
	f := func(name string, produce func(ctx context.Context, n int) ([]int, error)) {
		bubble(t, name, func(t *testing.T) {
			src := stage.NewSource(produce)
			sink, _ := keeper()
			sub := stage.Connect(src, sink)
			wait, stop := start(t, src, sink)
			synctest.Wait()
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
			require.Equal(t, stage.Shutdown, sub.Ending().Reason)
			require.Equal(t, "ended", src.Inspect().State)
		})
	}
	f("its error", func(ctx context.Context, _ int) ([]int, error) { <-ctx.Done(); return nil, ctx.Err() })
	f("wrapped", func(ctx context.Context, _ int) ([]int, error) {
		<-ctx.Done()
		return []int{1}, fmt.Errorf("read: %w", context.Cause(ctx))
	})
	f("none", func(ctx context.Context, _ int) ([]int, error) { <-ctx.Done(); return nil, nil })
	f("EOF", func(ctx context.Context, _ int) ([]int, error) { <-ctx.Done(); return nil, context.Canceled })
}

// A stage that does not come to its end in time is cut, and says so.
func TestDrainTimeout(t *testing.T) {
	f := func(name string, handle func(ctx context.Context, _ []int) error) {
		bubble(t, name, func(t *testing.T) {
			src := counter(1 << 30)
			sink := stage.NewSink(handle)
			sink.DrainTimeout, src.DrainTimeout = time.Minute, time.Minute
			sub := stage.Connect(src, sink, stage.MaxDemand(100))
			wait, stop := start(t, src, sink)
			synctest.Wait()
			stop()
			begin := time.Now()
			require.ErrorIs(t, wait(), stage.ErrDrainTimeout)
			require.Less(t, time.Since(begin), 2*time.Minute)
			require.NotZero(t, sub.Ending().Reason)
		})
	}
	f("slow", func(context.Context, []int) error { time.Sleep(25 * time.Second); return nil })
	f("stuck", func(ctx context.Context, _ []int) error { <-ctx.Done(); return ctx.Err() })
	f("stuck and silent", func(ctx context.Context, _ []int) error { <-ctx.Done(); return nil })
}

// When the last sink has ended, Run ends, whatever is held before it.
func TestRunEndsWithTheLastSink(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) { return make([]int, 8*n), nil })
		wide := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			return append(append(events, events...), events...), nil
		})
		last := stage.NewGate(stage.Map(double))
		sink := stage.NewSink(func(context.Context, []int) error { return stage.Stop })
		stage.Connect(src, wide, stage.MaxDemand(10))
		stage.Connect(wide, last, stage.MaxDemand(10))
		stage.Connect(last, sink, stage.MaxDemand(10))
		begin := time.Now()
		require.NoError(t, stage.Run(t.Context(), src, wide, last, sink))
		require.Zero(t, time.Since(begin), "nobody waits for a timeout")
		for _, s := range []stage.Inspector{src, wide, last, sink} {
			require.Equal(t, "ended", s.Inspect().State)
		}
	})
}

// DSC-02: without a callback a discard is a warning that says who and how many.
// DSC-03: with one it is not.
func TestDiscardsAreReported(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	bubble(t, "", func(t *testing.T) {
		for _, told := range []bool{false, true} {
			src := stage.NewSource(func(context.Context, int) ([]int, error) { return upTo(0, 10), io.EOF })
			src.Name, src.Buffer = fmt.Sprintf("told-%v", told), stage.KeepFirst(2)
			var counts []int
			if told {
				src.OnDiscard = func(_ string, n int) { counts = append(counts, n) }
			}
			sink, got := keeper()
			stage.Connect(src, sink, stage.MaxDemand(1))
			require.NoError(t, stage.Run(t.Context(), src, sink))
			require.Equal(t, []int{0, 1, 2}, got.get())
			require.Equal(t, told, len(counts) == 1 && counts[0] == 7) // DSC-01
		}
	})
	require.Contains(t, out.String(), `msg="events discarded" stage=told-false reason="buffer overflow" count=7`)
	require.NotContains(t, out.String(), "told-true")
}
