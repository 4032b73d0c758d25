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

// noted is a source of the natural numbers that notes what it is asked for.
func noted(limit int) (*stage.Source[int], *log[int]) {
	next := 0
	var demands log[int]
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		demands.add(demand)
		events := upTo(next, min(next+demand, limit))
		next += len(events)
		if next == limit {
			return events, io.EOF
		}
		return events, nil
	}), &demands
}

// ACC-01 and ACC-03: nothing moves until it is forwarded, and then it moves as if it had
// never been held. The second time, and without Accumulate, nothing happens.
func TestAccumulate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, demands := noted(100)
		src.Accumulate = true
		steps, batches := make(chan struct{}), log[[]int]{}
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			batches.add(append([]int{}, events...))
			<-steps
			return nil
		})
		sub := stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(2))
		wait, _ := start(t, src, sink)
		time.Sleep(time.Hour)
		require.Empty(t, demands.get())
		require.Empty(t, batches.get())
		up := src.Inspect().Subscribers[0]
		require.Equal(t, "held", up.State)
		require.Equal(t, []int64{6, 0, 0}, []int64{up.Held, up.Granted, up.Credit})
		require.Equal(t, int64(6), sub.Info().Open)
		src.Forward()
		synctest.Wait()
		require.Equal(t, []int{6}, demands.get())
		require.Equal(t, [][]int{{0, 1, 2, 3}}, batches.get())
		src.Forward()
		synctest.Wait()
		require.Equal(t, []int{6}, demands.get())
		close(steps)
		require.NoError(t, wait())
		src.Forward()
		counter(1).Forward()
		require.Len(t, batches.get(), 30)
	})
}

// ACC-01: it may be forwarded before the run, and then nothing is held.
func TestForwardedBeforeItRuns(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, sink := counter(10), (*stage.Sink[int])(nil)
		src.Accumulate = true
		src.Forward()
		sink, got := keeper()
		stage.Connect(src, sink)
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, upTo(0, 10), got.get())
	})
}

// ACC-05: nothing is produced for one that has left.
func TestAccumulatedAsksOfTheDeparted(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, demands := noted(100)
		src.Accumulate = true
		a, b := read(t, src), read(t, src)
		wait, stop := start(t, src)
		require.NoError(t, a.Ask(7, 0))
		require.NoError(t, b.Ask(3, 0))
		a.Cancel(stage.Cancel[int]{})
		src.Forward()
		synctest.Wait()
		require.Equal(t, []int{3}, demands.get())
		require.Equal(t, upTo(0, 3), b.events())
		b.Cancel(stage.Cancel[int]{Acked: 3})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// ACC-11: with a broadcast, whoever has subscribed before it is forwarded misses nothing.
// ACC-06: what is pushed meanwhile is buffered.
func TestAccumulatingBroadcast(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Accumulate, src.Dispatcher, src.Buffer = true, dispatch.Broadcast[int](), stage.KeepLast(4)
		lost := map[string]int{}
		src.OnDiscard = func(reason string, n int) { lost[reason] += n }
		wait, _ := start(t, src)
		var sinks []stage.Runner
		var logs []*log[int]
		for range 3 {
			sink, got := keeper()
			stage.Connect(src, sink)
			sinks, logs = append(sinks, sink), append(logs, got)
		}
		waitSinks, _ := start(t, sinks...)
		synctest.Wait()
		require.NoError(t, src.Push(1, 2, 3))
		require.NoError(t, src.Push(4, 5))
		synctest.Wait()
		src.Finish()
		src.Forward()
		require.NoError(t, wait())
		require.NoError(t, waitSinks())
		for _, got := range logs {
			require.Equal(t, []int{2, 3, 4, 5}, got.get())
		}
		require.Equal(t, map[string]int{stage.DiscardOverflow: 1}, lost)
	})
}

// A source that is stopped while it accumulates hands on what it has.
func TestStoppedWhileAccumulating(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Accumulate = true
		sink, got := keeper()
		stage.Connect(src, sink)
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.NoError(t, src.Push(1, 2))
		begin := time.Now()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Zero(t, time.Since(begin))
		require.Equal(t, []int{1, 2}, got.get())
	})
}
