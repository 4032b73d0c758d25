package stage

import (
	"math"
	"slices"
)

// store keeps the events that wait in a stage, in the lanes of its dispatcher.
// One limit holds over all lanes together.
//
// Events that came back stand before the others of their lane, do not count
// against the limit and are never given up for room.
type store[T any] struct {
	limit Buffer
	lanes []lane[T]
	fresh int // in all lanes, returned ones not counted
	back  int // returned ones
	next  uint64
}

type lane[T any] struct {
	// back has the first one last: others come before it, at the cost of those alone.
	back  []Returned[T]
	fresh queue[T]
	// age numbers the fresh events in the order of their arrival. It is kept only
	// where there are several lanes: elsewhere the order says it.
	age queue[uint64]
}

func newStore[T any](lanes int, limit Buffer) store[T] {
	return store[T]{limit: limit, lanes: make([]lane[T], lanes)}
}

func (s *store[T]) len() int { return s.fresh + s.back }

func (s *store[T]) waiting(l int) int {
	return len(s.lanes[l].back) + s.lanes[l].fresh.len()
}

// put stores events at the back of lane l, whatever the limit says: trim follows.
func (s *store[T]) put(l int, events ...T) {
	ln := &s.lanes[l]
	ln.fresh.push(events...)
	if len(s.lanes) > 1 {
		for range events {
			ln.age.push(s.next)
			s.next++
		}
	}
	s.fresh += len(events)
}

// putBack stores returned events at the front of lane l.
func (s *store[T]) putBack(l int, events ...Returned[T]) {
	ln := &s.lanes[l]
	for _, e := range slices.Backward(events) {
		ln.back = append(ln.back, e)
	}
	s.back += len(events)
}

// take removes at most n events from the front of lane l, as one batch. Events
// that a handler has had before come alone, and never together with fresh ones.
func (s *store[T]) take(l, n int) Batch[T] {
	ln := &s.lanes[l]
	if len(ln.back) == 0 {
		n = min(n, ln.fresh.len())
		if len(s.lanes) > 1 {
			ln.age.take(n)
		}
		s.fresh -= n
		return Batch[T]{Events: ln.fresh.take(n)}
	}
	b := Batch[T]{Redelivered: true, Attempts: ln.back[len(ln.back)-1].Attempts}
	for len(b.Events) < n && len(ln.back) > 0 {
		last := len(ln.back) - 1
		first := ln.back[last]
		if len(b.Events) > 0 && (b.Attempts > 0 || first.Attempts > 0) {
			break
		}
		b.Events = append(b.Events, first.Event)
		ln.back[last] = Returned[T]{}
		ln.back = ln.back[:last]
		s.back--
	}
	if len(ln.back) == 0 {
		ln.back = nil // what came back once is not what comes back always
	}
	return b
}

// trim gives up what is over the limit and returns how many events that were.
func (s *store[T]) trim() int {
	over := s.fresh - s.limit.capacity
	if over <= 0 {
		return 0
	}
	for range over {
		l := s.victim()
		ln := &s.lanes[l]
		if s.limit.keep == keepLast {
			ln.fresh.take(1)
		} else {
			ln.fresh.cut(1)
		}
		if len(s.lanes) > 1 {
			if s.limit.keep == keepLast {
				ln.age.take(1)
			} else {
				ln.age.cut(1)
			}
		}
	}
	s.fresh -= over
	return over
}

// victim is the lane that holds the oldest event, or the newest where the first
// ones are kept.
func (s *store[T]) victim() int {
	if len(s.lanes) == 1 {
		return 0
	}
	victim, oldest, newest := 0, uint64(math.MaxUint64), uint64(0)
	for l := range s.lanes {
		ages := s.lanes[l].age.items()
		if len(ages) == 0 {
			continue
		}
		if first := ages[0]; s.limit.keep == keepLast && first < oldest {
			victim, oldest = l, first
		}
		if last := ages[len(ages)-1]; s.limit.keep == keepFirst && last >= newest {
			victim, newest = l, last
		}
	}
	return victim
}

// sweep lets go of the events that were taken.
func (s *store[T]) sweep() {
	for l := range s.lanes {
		s.lanes[l].fresh.sweep()
		s.lanes[l].age.sweep()
	}
}

// clear gives up everything and returns how many events that were.
func (s *store[T]) clear() int {
	n := s.len()
	*s = newStore[T](len(s.lanes), s.limit)
	return n
}
