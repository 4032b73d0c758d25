// Package credit is the arithmetic of demand, both halves of it.
//
// A consumer asks for events, a producer spends what was asked for. Positions
// count the events of one subscription from 1. Four of them say all there is to
// know of it, and the law between them holds at every moment:
//
//	acked <= received <= sent <= granted
//
// granted is asked for in all, sent and received are what they say, acked is
// processed up to there. [Window] is the consumer's half: how much to ask, and
// when to ask again. [Ledger] is the producer's half: what may still be sent, and
// what is not yet acknowledged. [Ranges] are the positions above acked that are
// processed too, where events are finished out of order.
//
// Everything here is a plain value: no goroutine, no lock, no clock. A value has
// one owner at a time.
package credit

import "math"

// Unbounded is the demand that flow control is switched off with. Sums saturate
// here, and what is unbounded stays so.
const Unbounded = math.MaxInt64

// Add returns a+b, both at least 0, saturated at Unbounded.
func Add(a, b int64) int64 {
	if a > Unbounded-b {
		return Unbounded
	}
	return a + b
}

// Sub returns a-b, for b finite: what is unbounded stays unbounded.
func Sub(a, b int64) int64 {
	if a == Unbounded {
		return Unbounded
	}
	return a - b
}
