package node

import "unsafe"

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

// spareBytes is how much a session keeps.
const spareBytes = 32 << 10

func sizeOf[T any](room []T) uintptr {
	var event T
	return uintptr(cap(room)) * unsafe.Sizeof(event)
}

// get returns room for n events.
func (s *spare[T]) get(n int) []T {
	last := len(s.rooms) - 1
	if last < 0 || cap(s.rooms[last]) < n {
		return make([]T, 0, n)
	}
	room := s.rooms[last]
	s.rooms[last] = nil
	s.rooms, s.bytes = s.rooms[:last], s.bytes-sizeOf(room)
	return room
}

// put takes room that nobody reads any more.
func (s *spare[T]) put(room []T) {
	if size := sizeOf(room); !s.closed && s.bytes+size <= spareBytes {
		clear(room)
		s.rooms, s.bytes = append(s.rooms, room[:0]), s.bytes+size
	}
}

// close keeps nothing from now on.
func (s *spare[T]) close() { *s = spare[T]{closed: true} }
