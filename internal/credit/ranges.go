package credit

import "slices"

// Range is the positions First..Last, both included.
type Range struct{ First, Last int64 }

// Ranges is a set of positions, kept as sorted ranges that do not touch. Its zero
// value is empty.
type Ranges struct{ r []Range }

// Add puts first..last into the set, and joins ranges that touch.
func (s *Ranges) Add(first, last int64) {
	i, _ := slices.BinarySearchFunc(s.r, first, func(r Range, p int64) int {
		if r.Last < p-1 {
			return -1
		}
		return 1
	})
	j := i
	for j < len(s.r) && s.r[j].First <= last+1 {
		first, last = min(first, s.r[j].First), max(last, s.r[j].Last)
		j++
	}
	s.r = slices.Replace(s.r, i, j, Range{first, last})
}

// Advance returns the position up to which everything is in the set or at most
// acked, and takes what it passed out of the set.
func (s *Ranges) Advance(acked int64) int64 {
	i := 0
	for i < len(s.r) && s.r[i].First <= acked+1 {
		acked = max(acked, s.r[i].Last)
		i++
	}
	s.r = slices.Delete(s.r, 0, i)
	return acked
}

// Contains reports whether p is in the set.
func (s *Ranges) Contains(p int64) bool {
	for _, r := range s.r {
		if p <= r.Last {
			return p >= r.First
		}
	}
	return false
}

// Count is the number of positions in the set.
func (s *Ranges) Count() int64 {
	var n int64
	for _, r := range s.r {
		n += r.Last - r.First + 1
	}
	return n
}

// All returns the ranges, in order. The slice is the caller's.
func (s *Ranges) All() []Range { return slices.Clone(s.r) }

// Len is the number of ranges.
func (s *Ranges) Len() int { return len(s.r) }

// Check reports whether rs is sorted, does not touch itself, and lies within
// (acked+1, last]: a range that begins at acked+1 would belong into acked.
func Check(rs []Range, acked, last int64) bool {
	low := acked + 1
	for _, r := range rs {
		if r.First <= low || r.Last < r.First || r.Last > last {
			return false
		}
		low = r.Last + 1
	}
	return true
}
