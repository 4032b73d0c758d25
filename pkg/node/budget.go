package node

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// budget is what all subscriptions of a node together may hold un-acknowledged, in
// encoded bytes. When it is used up, a subscription that holds something waits in line
// until others have acknowledged, as if it had no credit; one that holds nothing sends
// a frame all the same, so nobody starves, and everybody in line has an acknowledgement
// to come that lets the line move on.
//
// A frame costs an addition. The lock is taken by those who wait and those who let them
// go on, and never while something else is called.
type budget struct {
	max  int64
	log  *slog.Logger
	used atomic.Int64

	waiting  atomic.Int64 // how many stand in line
	pauses   atomic.Int64 // how often a subscription had to wait, in all
	episodes atomic.Int64 // how often the budget was used up
	on       atomic.Bool  // an episode: until half of it is free again

	mu   sync.Mutex
	line []*stream
}

// spent reports whether the budget is used up.
func (b *budget) spent() bool { return b.used.Load() >= b.max }

// take books that n bytes more are held.
func (b *budget) take(n int64) { b.used.Add(n) }

// free books that n bytes are held no longer, and lets the next in line go on.
func (b *budget) free(n int64) {
	if n == 0 {
		return
	}
	used := b.used.Add(-n)
	if b.on.Load() && used < b.max/2 {
		b.on.Store(false)
	}
	b.next()
}

// wait puts a stream in line: it is poked when its turn has come.
func (b *budget) wait(s *stream) {
	if s.queued.Swap(true) {
		return
	}
	b.pauses.Add(1)
	b.mu.Lock()
	b.line = append(b.line, s)
	b.waiting.Store(int64(len(b.line)))
	b.mu.Unlock()
	if !b.on.Swap(true) {
		b.log.Warn("subscriptions pause: "+b.why(), "times", b.episodes.Add(1))
	}
	b.next() // room may have been made meanwhile
}

// next lets the first in line go on, if there is room. That one calls it again, so that
// the line moves as long as there is.
func (b *budget) next() {
	if b.waiting.Load() == 0 || b.spent() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.line) > 0 {
		s := b.line[0]
		b.line[0] = nil
		b.line = b.line[1:]
		b.waiting.Store(int64(len(b.line)))
		s.queued.Store(false)
		select {
		case <-s.over:
			continue // it has left
		default:
		}
		s.poke()
		return
	}
	b.line = nil
}

// why says what those in line wait for.
func (b *budget) why() string {
	return fmt.Sprintf("the node's byte budget (%d) is used up", b.max)
}
