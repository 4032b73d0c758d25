//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// A fault strikes a node, and is over when strike returns.
type fault struct {
	name   string
	weight int
	// steady ones are survived without a trace.
	steady bool
	strike func(ctx context.Context, p *place, r *rand.Rand)
}

// between is a random time.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// while does something to the link of a node for a time.
func while(do func(p *place, r *rand.Rand), from, to time.Duration) func(context.Context, *place, *rand.Rand) {
	return func(ctx context.Context, p *place, r *rand.Rand) {
		do(p, r)
		rest(ctx, between(r, from, to))
		p.link.Heal()
	}
}

const (
	short  = 1500 * time.Millisecond // well inside every window
	longer = 4 * time.Second         // than the short windows
	most   = 6 * time.Second
)

var faults = []fault{
	{"cut all", 6, true, func(_ context.Context, p *place, _ *rand.Rand) { p.link.Cut() }},
	{"cut one", 4, true, func(_ context.Context, p *place, _ *rand.Rand) { p.link.CutOldest() }},
	{"cut after bytes", 8, true, func(ctx context.Context, p *place, r *rand.Rand) {
		p.link.CutAfter(r.Int64N(20_000))
		rest(ctx, between(r, 0, short))
		p.link.Heal()
	}},
	{"cut while opening", 6, true, func(ctx context.Context, p *place, r *rand.Rand) {
		p.link.Cut()
		for range 1 + r.IntN(3) {
			p.link.CutAfter(r.Int64N(600))
			rest(ctx, between(r, 0, short/4))
		}
		p.link.Heal()
	}},
	{"stall", 2, true, while(func(p *place, _ *rand.Rand) { p.link.Stall(true, true) }, 0, short)},
	{"half open", 4, true, while(func(p *place, r *rand.Rand) { up := r.IntN(2) == 0; p.link.Stall(up, !up) }, 0, short)},
	{"stall, then cut", 3, true, func(ctx context.Context, p *place, r *rand.Rand) {
		up := r.IntN(2) == 0
		p.link.Stall(up, !up)
		rest(ctx, between(r, 0, short/2))
		p.link.Cut()
		p.link.Heal()
	}},
	{"delay", 2, true, while(func(p *place, r *rand.Rand) { p.link.Delay(between(r, time.Millisecond, 200*time.Millisecond)) }, 0, 2*short)},
	{"throttle", 2, true, while(func(p *place, r *rand.Rand) { p.link.Throttle(10_000 + r.IntN(100_000)) }, 0, 2*short)},
	{"refuse", 4, true, while(func(p *place, _ *rand.Rand) { p.link.Refuse() }, 0, short)},
	{"drop", 2, true, while(func(p *place, _ *rand.Rand) { p.link.Drop(); p.link.Cut() }, 0, short)},
	{"pause", 4, true, func(ctx context.Context, p *place, r *rand.Rand) { p.paused(ctx, between(r, 0, short), r.IntN(2) == 0) }},
	{"refuse for long", 3, false, while(func(p *place, _ *rand.Rand) { p.link.Refuse() }, longer, most)},
	{"pause for long", 2, false, func(ctx context.Context, p *place, r *rand.Rand) {
		p.paused(ctx, between(r, longer, most), true)
	}},
	{"kill", 6, false, func(ctx context.Context, p *place, r *rand.Rand) {
		p.kill()
		p.again(ctx, r)
	}},
	{"drain", 5, false, func(ctx context.Context, p *place, r *rand.Rand) {
		p.drain()
		p.again(ctx, r)
	}},
}

// paused stops the process for a time, and with cut resets its connections meanwhile.
func (p *place) paused(ctx context.Context, d time.Duration, cut bool) {
	p.proc.Pause()
	rest(ctx, d/2)
	if cut {
		p.link.Cut()
	}
	rest(ctx, d/2)
	p.proc.Resume()
}

// again starts the node anew, soon, or later than its subscriptions wait.
func (p *place) again(ctx context.Context, r *rand.Rand) {
	if r.IntN(4) == 0 {
		rest(ctx, between(r, longer, most))
	} else {
		rest(ctx, between(r, 0, short))
	}
	if err := p.start(); err != nil {
		p.net.wrong("%v", err)
	}
}

// suffer lets faults strike a node, until ctx ends. What is broken is whole again when
// it returns.
func (p *place) suffer(ctx context.Context, number int) {
	r := rand.New(rand.NewPCG(p.net.seed, uint64(number)))
	var some []fault
	for _, f := range faults {
		for range f.weight {
			if f.steady || !p.steady() {
				some = append(some, f)
			}
		}
	}
	for {
		rest(ctx, between(r, 100*time.Millisecond, 3*time.Second))
		if ctx.Err() != nil {
			return
		}
		if !p.proc.Running() {
			p.net.wrong("%s/%d has ended, and nobody told it to: see its stderr", p.spec.Name, p.spec.Run)
			return
		}
		f := some[r.IntN(len(some))]
		p.net.struck(p, f.name)
		f.strike(ctx, p, r)
	}
}
