package credit

import "math/bits"

// Sum is what some amounts, none of them negative, come to. Whatever was added can be
// taken off again, also where the total has no bound meanwhile. Its zero value is 0.
type Sum struct{ high, low uint64 }

// Add adds n.
func (s *Sum) Add(n int64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, uint64(n), 0)
	s.high += carry
}

// Take takes off n, which was added before.
func (s *Sum) Take(n int64) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, uint64(n), 0)
	s.high -= borrow
}

// Total is the sum, which saturates at Unbounded.
func (s *Sum) Total() int64 {
	if s.high > 0 || s.low > Unbounded {
		return Unbounded
	}
	return int64(s.low)
}
