package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

func stageCurves() []*curve {
	return []*curve{
		{Name: "demand", Of: "subscribers", Unit: "CPU ns an event", Steps: []int{1, 10, 100, 1000}, measure: func(n int) (float64, error) {
			return spread(n, dispatch.Demand[int]())
		}},
		{Name: "broadcast", Of: "subscribers", Unit: "CPU ns a copy", Steps: []int{1, 10, 100, 1000}, measure: func(n int) (float64, error) {
			return spread(n, dispatch.Broadcast[int]())
		}},
		{Name: "end", Of: "subscribers", Unit: "CPU µs a subscriber, that the source ends with events on their way", Steps: []int{10, 100, 1000, 10_000}, measure: ending},
		{Name: "give back", Of: "subscribers", Unit: "CPU µs a subscriber, that fails with 100 events", Steps: []int{10, 100, 1000, 10_000}, measure: failing},
		{Name: "buffer", Of: "events", Unit: "CPU ns to push and take an event", Steps: []int{10, 1000, 100_000, 10_000_000}, measure: func(n int) (float64, error) {
			took, _, err := buffered(n)
			return took, err
		}},
		{Name: "buffer, memory", Of: "events", Unit: "bytes an event of 8 bytes", Steps: []int{1000, 100_000, 10_000_000}, measure: func(n int) (float64, error) {
			_, bytes, err := buffered(n)
			return bytes, err
		}},
	}
}

// flow counts what passes, and notes the time that it takes from the first warm of
// them to many more.
type flow struct {
	warm, many    int64
	passed        atomic.Int64
	began, lasted atomic.Int64
	enough        atomic.Bool
}

// newFlow is for n consumers. Each has had what it asks for at first when it begins.
func newFlow(n int) *flow {
	return &flow{warm: int64(200_000 + 2000*n), many: int64(1_000_000 + 2000*n)}
}

func (f *flow) count(n int) {
	now := f.passed.Add(int64(n))
	before := now - int64(n)
	if before < f.warm && now >= f.warm {
		f.began.Store(int64(cpu()))
	}
	if end := f.warm + f.many; before < end && now >= end {
		f.lasted.Store(int64(cpu()) - f.began.Load())
		f.enough.Store(true)
	}
}

// each is what one has taken, in ns.
func (f *flow) each() float64 { return float64(f.lasted.Load()) / float64(f.many) }

// sourceOf makes what is asked for until that is enough.
func sourceOf(f *flow, d dispatch.Dispatcher[int]) *stage.Source[int] {
	source := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		if f.enough.Load() {
			return nil, io.EOF
		}
		return make([]int, min(demand, 1000)), nil
	})
	source.Dispatcher = d
	return source
}

func sinkOf(f *flow) *stage.Sink[int] {
	return stage.NewSink(func(_ context.Context, events []int) error {
		f.count(len(events))
		return nil
	})
}

// spread is what an event costs that goes to one of n sinks, or a copy of one that goes
// to all.
func spread(n int, d dispatch.Dispatcher[int]) (float64, error) {
	f := newFlow(n)
	source := sourceOf(f, d)
	all := []stage.Runner{source}
	for range n {
		sink := sinkOf(f)
		stage.Connect(source, sink)
		all = append(all, sink)
	}
	err := stage.Run(context.Background(), all...)
	return f.each(), err
}

// hold runs n sinks that have a hundred events each in hand and wait until they are let
// go, all of them at once, with what then is to become of the batch.
func hold(n int, verdict error) (took time.Duration, err error) {
	const each = 100
	source := stage.NewSource(func(context.Context, int) ([]int, error) { return nil, nil })
	source.Buffer = stage.Unlimited()
	source.OnDiscard = func(string, int) {}
	source.MaxAttempts = 1 << 30
	var had sync.WaitGroup
	had.Add(n)
	letGo := make(chan struct{})
	all := []stage.Runner{source}
	for range n {
		sink := stage.NewSink(func(context.Context, []int) error {
			had.Done()
			<-letGo
			return verdict
		})
		stage.Connect(source, sink, stage.MaxDemand(each), stage.MinDemand(0))
		all = append(all, sink)
	}
	done := make(chan error, 1)
	go func() { done <- stage.Run(context.Background(), all...) }()
	if err := source.Push(make([]int, n*each)...); err != nil {
		return 0, err
	}
	had.Wait()
	source.Finish()
	before := cpu()
	close(letGo)
	err = <-done
	return cpu() - before, err
}

// ending is what each of n subscribers costs when the source has ended and waits for all
// of them.
func ending(n int) (float64, error) {
	took, err := hold(n, nil)
	return took.Seconds() * 1e6 / float64(n), err
}

var errGivenBack = errors.New("on purpose")

// failing is what each of n subscribers costs that fails and gives back what it had.
func failing(n int) (float64, error) {
	took, err := hold(n, errGivenBack)
	if errors.Is(err, errGivenBack) {
		err = nil
	}
	return took.Seconds() * 1e6 / float64(n), err
}

// buffered pushes n events into a source that nobody subscribes to, ten at a time, and
// takes them out again. It returns the CPU ns of an event and the bytes that it took.
func buffered(n int) (ns, bytes float64, err error) {
	rounds := min(max(1_000_000/n, 1), 20_000)
	var spent time.Duration
	for range rounds {
		source := stage.NewSource(func(context.Context, int) ([]int, error) { return nil, nil })
		source.Buffer = stage.Unlimited()
		var m runtime.MemStats
		if rounds <= 1000 {
			runtime.GC()
			runtime.ReadMemStats(&m)
		}
		before := m.HeapAlloc
		begin := cpu()
		batch := make([]int, 10)
		for range n / 10 {
			if err := source.Push(batch...); err != nil {
				return 0, 0, err
			}
		}
		spent += cpu() - begin
		if rounds <= 1000 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			bytes = float64(m.HeapAlloc-before) / float64(n)
		}
		seen := 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			seen += len(events)
			return nil
		})
		stage.Connect(source, sink)
		source.Finish()
		begin = cpu()
		if err := stage.Run(context.Background(), source, sink); err != nil {
			return 0, 0, err
		}
		spent += cpu() - begin
		if seen != n {
			return 0, 0, errors.New("events are missing")
		}
	}
	return float64(spent) / float64(rounds*n), bytes, nil
}
