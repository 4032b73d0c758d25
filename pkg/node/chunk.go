package node

import (
	"slices"
	"unsafe"
)

// chunk is a run of events that were delivered together. They stay as they are, since
// they may be encoded without the lock.
type chunk[T any] struct {
	events      []T
	bytes       int64 // encoded, once they are
	attempts    int32 // how often each was tried before
	redelivered bool
	room        []T // what is free when nothing is left of it
}

// marks are the attempts of n of its events, nil when none was sent before.
func (c *chunk[T]) marks(n int) []int32 {
	if !c.redelivered {
		return nil
	}
	marks := make([]int32, n)
	for i := range marks {
		marks[i] = c.attempts
	}
	return marks
}

// spare is the room of chunks that are acknowledged, for the next ones: a session that
// flows allocates nothing for its events.
type spare[T any] struct {
	rooms  [][]T
	bytes  uintptr
	closed bool
}

// spareBytes is how much a session keeps, until it is idle.
const spareBytes = 256 << 10

func sizeOf[T any](room []T) uintptr {
	var event T
	return uintptr(cap(room)) * unsafe.Sizeof(event)
}

// get returns room for n events. What is too small for them gives way to what will be
// put in its place.
func (s *spare[T]) get(n int) []T {
	for i, room := range slices.Backward(s.rooms) {
		if cap(room) >= n {
			s.rooms = slices.Delete(s.rooms, i, i+1)
			s.bytes -= sizeOf(room)
			return room
		}
	}
	s.drop()
	return make([]T, 0, n)
}

// put takes room that nobody reads any more.
func (s *spare[T]) put(room []T) {
	if size := sizeOf(room); !s.closed && s.bytes+size <= spareBytes {
		clear(room)
		s.rooms, s.bytes = append(s.rooms, room[:0]), s.bytes+size
	}
}

// drop keeps nothing for now.
func (s *spare[T]) drop() {
	clear(s.rooms)
	s.rooms, s.bytes = s.rooms[:0], 0
}

// close keeps nothing from now on.
func (s *spare[T]) close() { *s = spare[T]{closed: true} }
