package stage_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// What a pipeline in one process may use, counted and never timed: so it holds on every
// machine, under load and under the race detector. Who makes something dearer on purpose
// raises a bound here and says why in the commit; who makes it cheaper lowers it.
// `go test -run TestCost -v ./pkg/stage` prints the figures.
const (
	// maxAllocations is for each thousand events that pass a source, a gate and a sink, with
	// a demand of 1000/750: seven or eight for each batch.
	maxAllocations = 40
	// maxGoroutines and maxKiB are for each sink that waits for events, and its subscription.
	maxGoroutines, maxKiB = 1.1, 12
)

func TestCostOfAnEvent(t *testing.T) {
	const warm, thousands = 100_000, 2000
	source := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		return make([]int, demand), nil
	})
	gate := stage.NewGate(stage.Map(func(i int) int { return 2 * i }))
	seen := 0
	var before, after runtime.MemStats
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		was := seen
		seen += len(events)
		if was < warm && seen >= warm {
			runtime.ReadMemStats(&before)
			seen = warm
		}
		if seen >= warm+1000*thousands {
			runtime.ReadMemStats(&after)
			return stage.Stop
		}
		return nil
	})
	stage.Connect(source, gate)
	stage.Connect(gate, sink)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-sink.Ended()
		cancel()
	}()
	require.ErrorIs(t, stage.Run(ctx, source, gate, sink), context.Canceled)
	each := float64(after.Mallocs-before.Mallocs) / thousands
	t.Logf("%.2f allocations for each thousand events, of %d", each, maxAllocations)
	require.Positive(t, each)
	require.LessOrEqual(t, each, float64(maxAllocations))
}

func TestCostOfAnIdleSubscription(t *testing.T) {
	const n = 1000
	source := stage.FromChan(make(chan int))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- stage.Run(ctx, source) }()
	sinks := make([]stage.Runner, n)
	var there sync.WaitGroup
	there.Add(n)
	held := func() float64 {
		var m runtime.MemStats
		runtime.GC() // stacks shrink
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	before, goroutines := held(), runtime.NumGoroutine()
	for i := range sinks {
		sink := stage.NewSink(func(context.Context, []int) error { return nil })
		sink.OnSubscribed = func(*stage.Subscription) error {
			there.Done() // on the sink's own goroutine
			return nil
		}
		stage.Connect(source, sink)
		sinks[i] = sink
	}
	go func() { done <- stage.Run(ctx, sinks...) }()
	there.Wait()
	each := float64(runtime.NumGoroutine()-goroutines) / n
	size := (held() - before) / 1024 / n
	t.Logf("%.2f goroutines of %.1f, %.1f KiB of %d", each, maxGoroutines, size, maxKiB)
	require.LessOrEqual(t, each, maxGoroutines)
	require.LessOrEqual(t, size, float64(maxKiB))
	require.Positive(t, size)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, <-done, context.Canceled)
}
