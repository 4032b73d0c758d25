package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"
)

// Generator makes the events of one subscription.
type Generator struct {
	size  int
	next  uint64
	timed bool
	rate  float64 // events in a second; 0 for as many as are asked for
	begun time.Time
	body  []byte
	made  [][]byte
	ring  []byte
	rest  []byte // of ring
}

func newGenerator(s Spec) *Generator {
	g := &Generator{size: s.Size, timed: s.Load != 0, rate: s.Rate, body: make([]byte, s.Size)}
	for i := range g.body {
		g.body[i] = byte(i)
	}
	return g
}

// Due waits until events may be made, and returns how many of n.
func (g *Generator) Due(ctx context.Context, n int) (int, error) {
	if g.rate == 0 {
		return n, ctx.Err()
	}
	if g.begun.IsZero() {
		g.begun = time.Now()
	}
	for {
		// What could not be made in time is not made up for: the load is what is offered.
		due := uint64(time.Since(g.begun).Seconds() * g.rate)
		if due > g.next {
			return int(min(due-g.next, uint64(n))), nil
		}
		wait := time.Duration((float64(g.next+1)/g.rate)*1e9) - time.Since(g.begun)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Put writes the next event into b.
func (g *Generator) Put(b []byte) {
	copy(b, g.body)
	g.stamp(b)
}

// stamp makes b, which has a body, the next event.
func (g *Generator) stamp(b []byte) {
	n := g.next
	if g.timed {
		n = uint64(time.Now().UnixNano())
	}
	binary.LittleEndian.PutUint64(b, n)
	g.next++
}

// Make returns the next n events, in memory of their own. The slice is valid until the
// next call.
func (g *Generator) Make(n int) [][]byte {
	slab := make([]byte, n*g.size)
	g.made = g.made[:0]
	for i := range n {
		event := slab[i*g.size : (i+1)*g.size : (i+1)*g.size]
		g.Put(event)
		g.made = append(g.made, event)
	}
	return g.made
}

// Ring makes the memory that Next uses again after n events.
func (g *Generator) Ring(n int) { g.ring = bytes.Repeat(g.body, n) }

// Next returns the next n events, in the memory of those that came so many before. Only
// their numbers are written, as the rest is there, so that an event is copied as often as
// in a row that puts it into its frame. The slice is valid until the next call.
func (g *Generator) Next(n int) [][]byte {
	g.made = g.made[:0]
	for range n {
		if len(g.rest) == 0 {
			g.rest = g.ring
		}
		event := g.rest[:g.size:g.size]
		g.rest = g.rest[g.size:]
		g.stamp(event)
		g.made = append(g.made, event)
	}
	return g.made
}
