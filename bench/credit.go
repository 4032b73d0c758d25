package main

import (
	"context"
	"sync"
)

// credits are what a raw producer may send: a counter and a wake-up, so that an ask
// never waits.
type credits struct {
	mu   sync.Mutex
	n    int
	wake chan struct{}
}

func newCredits() *credits { return &credits{wake: make(chan struct{}, 1)} }

func (c *credits) add(n int) {
	c.mu.Lock()
	c.n += n
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take waits for credit and takes at most n of it.
func (c *credits) take(ctx context.Context, n int) (int, error) {
	for {
		c.mu.Lock()
		got := min(c.n, n)
		c.n -= got
		c.mu.Unlock()
		if got > 0 {
			return got, nil
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (c *credits) give(n int) { c.add(n) }

// asker is the consumer's half.
type asker struct{ open, max, min int }

// took books n processed events, and returns what to ask for.
func (a *asker) took(n int) int {
	a.open -= n
	if a.open > a.min {
		return 0
	}
	ask := a.max - a.open
	a.open = a.max
	return ask
}

// send takes credit and lets write send events, until ctx ends.
func send(ctx context.Context, c *credits, g *Generator, batch int, write func(n int) error) error {
	for {
		n, err := c.take(ctx, batch)
		if err != nil {
			return err
		}
		due, err := g.Due(ctx, n)
		if err != nil {
			return err
		}
		if due < n {
			c.give(n - due)
		}
		if err := write(due); err != nil {
			return err
		}
	}
}
