//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluicenet/sluice/test/harness"
	"github.com/sluicenet/sluice/test/witness"
)

// A fault strikes a node, and is over when strike returns.
type fault struct {
	name   string
	weight int
	// steady ones are survived without a trace.
	steady bool
	strike func(ctx context.Context, n *witness.Node, r *rand.Rand)
}

// between is a random time.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// while does something to the link of a node for a time.
func while(do func(n *witness.Node, r *rand.Rand), from, to time.Duration) func(context.Context, *witness.Node, *rand.Rand) {
	return func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		do(n, r)
		harness.Sleep(ctx, between(r, from, to))
		n.Link.Heal()
	}
}

const (
	short  = 1500 * time.Millisecond // well inside every window
	longer = 4 * time.Second         // than the short windows
	most   = 6 * time.Second
)

var faults = []fault{
	{"cut all", 6, true, func(_ context.Context, n *witness.Node, _ *rand.Rand) { n.Link.Cut() }},
	{"cut one", 4, true, func(_ context.Context, n *witness.Node, _ *rand.Rand) { n.Link.CutOldest() }},
	{"cut after bytes", 8, true, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		n.Link.CutAfter(r.Int64N(20_000 << r.IntN(8)))
		harness.Sleep(ctx, between(r, 0, short))
		n.Link.Heal()
	}},
	{"cut while opening", 6, true, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		n.Link.Cut()
		for range 1 + r.IntN(3) {
			n.Link.CutAfter(r.Int64N(600))
			harness.Sleep(ctx, between(r, 0, short/4))
		}
		n.Link.Heal()
	}},
	{"stall", 2, true, while(func(n *witness.Node, _ *rand.Rand) { n.Link.Stall(true, true) }, 0, short)},
	{"half open", 4, true, while(func(n *witness.Node, r *rand.Rand) { up := r.IntN(2) == 0; n.Link.Stall(up, !up) }, 0, short)},
	{"stall, then cut", 3, true, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		up := r.IntN(2) == 0
		n.Link.Stall(up, !up)
		harness.Sleep(ctx, between(r, 0, short/2))
		n.Link.Cut()
		n.Link.Heal()
	}},
	{"delay", 2, true, while(func(n *witness.Node, r *rand.Rand) { n.Link.Delay(between(r, time.Millisecond, 200*time.Millisecond)) }, 0, 2*short)},
	{"throttle", 2, true, while(func(n *witness.Node, r *rand.Rand) { n.Link.Throttle(10_000 + r.IntN(100_000)) }, 0, 2*short)},
	{"refuse", 4, true, while(func(n *witness.Node, _ *rand.Rand) { n.Link.Refuse() }, 0, short)},
	{"drop", 2, true, while(func(n *witness.Node, _ *rand.Rand) { n.Link.Drop(); n.Link.Cut() }, 0, short)},
	{"pause", 4, true, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		paused(ctx, n, between(r, 0, short), r.IntN(2) == 0)
	}},
	{"refuse for long", 3, false, while(func(n *witness.Node, _ *rand.Rand) { n.Link.Refuse() }, longer, most)},
	{"pause for long", 2, false, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		paused(ctx, n, between(r, longer, most), true)
	}},
	{"kill", 6, false, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		n.Kill()
		again(ctx, n, r)
	}},
	{"drain", 5, false, func(ctx context.Context, n *witness.Node, r *rand.Rand) {
		n.Drain()
		again(ctx, n, r)
	}},
}

// paused stops the process for a time, and with cut resets its connections meanwhile.
func paused(ctx context.Context, n *witness.Node, d time.Duration, cut bool) {
	n.Pause()
	harness.Sleep(ctx, d/2)
	if cut {
		n.Link.Cut()
	}
	harness.Sleep(ctx, d/2)
	n.Resume()
}

// again starts the node anew, soon, or later than its subscriptions wait.
func again(ctx context.Context, n *witness.Node, r *rand.Rand) {
	if r.IntN(4) == 0 {
		harness.Sleep(ctx, between(r, longer, most))
	} else {
		harness.Sleep(ctx, between(r, 0, short))
	}
	if err := n.Start(); err != nil {
		panic(err) // the machine has run out of something
	}
}

// suffer lets faults strike a node, until ctx ends. What is broken is whole again when
// it returns.
func (s *soak) suffer(ctx context.Context, n *witness.Node, number int) {
	r := rand.New(rand.NewPCG(s.seed, uint64(number)))
	var some []fault
	for _, f := range faults {
		for range f.weight {
			if f.steady || !strings.HasPrefix(n.Name(), steady) {
				some = append(some, f)
			}
		}
	}
	for {
		harness.Sleep(ctx, between(r, 100*time.Millisecond, 3*time.Second))
		if ctx.Err() != nil || !n.Alive() {
			return
		}
		f := some[r.IntN(len(some))]
		s.struck(n, f.name)
		f.strike(ctx, n, r)
	}
}
