package credit

import (
	"math/bits"
	"slices"
)

// Range is the positions First..Last, both included.
type Range struct{ First, Last int64 }

// Ranges is a set of positions above what is acknowledged. Its zero value is empty.
//
// It is kept as one bit for each position from the lowest to the highest in it, so what
// it costs is bounded by how many events are un-acknowledged, however scattered they are
// finished: to add one takes the same time whatever else is in the set.
type Ranges struct {
	words []uint64
	base  int64 // the position of the first bit; a multiple of 64
	count int64
}

// Add puts first..last, at least 0, into the set.
func (s *Ranges) Add(first, last int64) {
	if last < first {
		return
	}
	s.cover(first, last)
	s.each(first, last, func(w *uint64, mask uint64) bool {
		s.count += int64(bits.OnesCount64(mask &^ *w))
		*w |= mask
		return true
	})
}

// cover makes room for the bits of first..last.
func (s *Ranges) cover(first, last int64) {
	low := first &^ 63
	switch {
	case len(s.words) == 0:
		s.base = low
	case low < s.base:
		s.words = slices.Insert(s.words, 0, make([]uint64, (s.base-low)/64)...)
		s.base = low
	}
	if n := int((last-s.base)/64) + 1; n > len(s.words) {
		s.words = append(s.words, make([]uint64, n-len(s.words))...)
	}
}

// each calls do with every word that has bits of first..last, which it has room for, and
// with the mask of those, until do returns false.
func (s *Ranges) each(first, last int64, do func(w *uint64, mask uint64) bool) {
	from, to := (first-s.base)/64, (last-s.base)/64
	for i := from; i <= to; i++ {
		mask := ^uint64(0)
		if i == from {
			mask &= ^uint64(0) << (first & 63)
		}
		if i == to {
			mask &= ^uint64(0) >> (63 - last&63)
		}
		if !do(&s.words[i], mask) {
			return
		}
	}
}

// Has reports whether all of first..last is in the set.
func (s *Ranges) Has(first, last int64) bool {
	if first < s.base || (last-s.base)/64 >= int64(len(s.words)) {
		return last < first
	}
	all := true
	s.each(first, last, func(w *uint64, mask uint64) bool {
		all = *w&mask == mask
		return all
	})
	return all
}

// Drop takes everything up to acked out of the set.
func (s *Ranges) Drop(acked int64) {
	if s.count == 0 || acked < s.base {
		return
	}
	whole := min((acked+1-s.base)/64, int64(len(s.words)))
	for _, w := range s.words[:whole] {
		s.count -= int64(bits.OnesCount64(w))
	}
	s.words = s.words[whole:]
	s.base += whole * 64
	if rest := (acked + 1) & 63; rest > 0 && len(s.words) > 0 {
		below := s.words[0] & (1<<rest - 1)
		s.count -= int64(bits.OnesCount64(below))
		s.words[0] &^= below
	}
	s.settle()
}

// Without takes rs, as First returns them, out of the set.
func (s *Ranges) Without(rs []Range) {
	for _, r := range rs {
		s.each(r.First, r.Last, func(w *uint64, mask uint64) bool {
			s.count -= int64(bits.OnesCount64(*w & mask))
			*w &^= mask
			return true
		})
	}
	s.settle()
}

// settle lets an empty set begin anew wherever the next position is.
func (s *Ranges) settle() {
	if s.count == 0 {
		s.words = s.words[:0]
	}
}

// Advance returns the position up to which everything is in the set or at most
// acked, and takes what it passed out of the set.
func (s *Ranges) Advance(acked int64) int64 {
	s.Drop(acked)
	if s.count == 0 || acked+1 < s.base {
		return acked
	}
	next := s.after(acked+1, false) - 1
	s.Drop(next)
	return next
}

// after returns the first position from at on that is in the set, where in is true, or
// is not. There is always one that is not.
func (s *Ranges) after(at int64, in bool) int64 {
	at = max(at, s.base)
	for i := (at - s.base) / 64; i < int64(len(s.words)); i++ {
		w := s.words[i]
		if !in {
			w = ^w
		}
		if w &= ^uint64(0) << (at & 63); w != 0 {
			return s.base + i*64 + int64(bits.TrailingZeros64(w))
		}
		at = s.base + (i+1)*64
	}
	return at
}

// First returns the first at most n ranges, in order.
func (s *Ranges) First(n int) (rs []Range) {
	for at, left := s.base, s.count; left > 0 && len(rs) < n; {
		first := s.after(at, true)
		at = s.after(first, false)
		rs = append(rs, Range{first, at - 1})
		left -= at - first
	}
	return rs
}

// All returns the ranges, in order; no two of them touch.
func (s *Ranges) All() []Range { return s.First(int(s.count)) }

// Contains reports whether p is in the set.
func (s *Ranges) Contains(p int64) bool { return s.Has(p, p) }

// Count is the number of positions in the set.
func (s *Ranges) Count() int64 { return s.count }

// Clone returns a copy that shares nothing with s.
func (s *Ranges) Clone() Ranges {
	return Ranges{words: slices.Clone(s.words), base: s.base, count: s.count}
}

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
