package main

import (
	"context"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// Pipelines in one process carry integers from a source through a gate that adds one
// to a sink that checks their order.

// counter checks integers and counts them.
type counter struct {
	m    *Meter
	next int
	late bool // it begins in the middle
}

func (c *counter) took(events []int) {
	for _, e := range events {
		if c.late {
			c.next, c.late = e, false
		}
		if e != c.next {
			c.m.fail("an integer came out of order")
		}
		c.next = e + 1
	}
	c.m.events.Add(int64(len(events)))
	c.m.bytes.Add(8 * int64(len(events)))
}

func sluiceLocal(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	next := 0
	made := make([]int, 4*s.Batch()) // free again at the next call
	source := stage.NewSource(func(ctx context.Context, demand int) ([]int, error) {
		events := made[:min(demand, len(made))]
		for i := range events {
			events[i] = next
			next++
		}
		return events, ctx.Err()
	})
	all := []stage.Runner{source}
	connect := func(from stage.Outlet[int], first int) {
		check := counter{m: m, next: first, late: s.Subs > 1}
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			check.took(events)
			return nil
		})
		stage.Connect(from, sink, stage.MaxDemand(s.Max), stage.MinDemand(s.Min))
		all = append(all, sink)
	}
	if s.Name == "local" {
		gate := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			for i := range events {
				events[i]++
			}
			return events, nil
		})
		stage.Connect(source, gate, stage.MaxDemand(s.Max), stage.MinDemand(s.Min))
		all = append(all, gate)
		connect(gate, 1)
	} else {
		source.Dispatcher = dispatch.Broadcast[int]()
		for range s.Subs {
			connect(source, 0)
		}
	}
	ready("")
	return stage.Run(ctx, all...)
}

// channels carries an integer at a time.
func channels(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	made, added := make(chan int, s.Max), make(chan int, s.Max)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			made <- n
		}
		close(made)
	}()
	go func() {
		for n := range made {
			added <- n + 1
		}
		close(added)
	}()
	ready("")
	check := counter{m: m, next: 1}
	one := make([]int, 1)
	for n := range added {
		one[0] = n
		check.took(one)
	}
	return nil
}

// channelsBatched carries the batches that sluice would.
func channelsBatched(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	depth := s.Max/s.Batch() - 1
	made, added := make(chan []int, depth), make(chan []int, depth)
	go func() {
		for n := 0; ctx.Err() == nil; {
			batch := make([]int, s.Batch())
			for i := range batch {
				batch[i] = n
				n++
			}
			made <- batch
		}
		close(made)
	}()
	go func() {
		for batch := range made {
			out := make([]int, len(batch))
			for i, n := range batch {
				out[i] = n + 1
			}
			added <- out
		}
		close(added)
	}()
	ready("")
	check := counter{m: m, next: 1}
	for batch := range added {
		check.took(batch)
	}
	return nil
}
