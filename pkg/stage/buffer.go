package stage

import "math"

// Buffer says how many events a stage keeps that nobody has asked for yet, and
// which it gives up when there are more. The zero value is the default: for a
// source the newest 10,000, for a gate no limit (what a gate keeps is limited by
// what it asked for).
type Buffer struct {
	set      bool
	capacity int
	keep     keep
}

type keep int

const (
	keepLast keep = iota
	keepFirst
)

// DefaultCapacity is how many events a source keeps when nothing else is said.
const DefaultCapacity = 10_000

// KeepLast keeps at most n events, and gives up the oldest when there are more.
// Less than 0 counts as 0: what nobody has asked for is discarded at once.
func KeepLast(n int) Buffer { return Buffer{set: true, capacity: max(n, 0), keep: keepLast} }

// KeepFirst keeps at most n events, and gives up the newest when there are more.
// Less than 0 counts as 0.
func KeepFirst(n int) Buffer { return Buffer{set: true, capacity: max(n, 0), keep: keepFirst} }

// Unlimited keeps everything: memory is then bounded by the demand alone.
func Unlimited() Buffer { return Buffer{set: true, capacity: math.MaxInt} }

// or returns b, or d where b is the zero value.
func (b Buffer) or(d Buffer) Buffer {
	if b.set {
		return b
	}
	return d
}
