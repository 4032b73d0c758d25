package autodemand

import (
	"fmt"
	"math"
	"time"
)

// Bounds are what a demand is kept in, at least 1 each, and Min no more than Max. Bytes
// comes first: where events are so large that Min of them are more, it is less than Min.
// A single event is always asked for.
type Bounds struct{ Min, Max, Bytes int64 }

// How a demand is judged. A period is as many round trips, batches and time as it takes
// to tell a trend from the moment; what has just been changed is given a round trip first.
const (
	periodTrips   = 4
	periodBatches = 4
	periodLeast   = 10 * time.Millisecond
	// helpful is by how much the rate has to rise for more demand to be worth it.
	helpful = 1 + 1.0/16
	// After a trial that did not help, this many periods are waited for the next, and
	// twice as many after each further one; not when the rate has risen by livelier.
	leastRest, mostRest = 8, 64
	livelier            = 1 + 1.0/4
)

// Sizer sizes one window. See the package documentation.
type Sizer struct {
	bounds Bounds
	start  int64
	value  int64
	why    string

	// events that have bytes together, the latest ones.
	events, bytes float64

	// The first event beyond position answers the ask that was made at marked.
	marked   time.Time
	position int64
	trips    [8]time.Duration
	measured int

	// The period: when it began, and what has happened in it.
	since     time.Time
	settling  bool
	processed int64
	batches   int
	pressed   int // batches behind which more than half of the window waited
	idle      time.Duration

	// trying says that the value is a trial; before it there were the other two.
	trying bool
	before int64
	rate   float64
	// rested is the rate when a trial last did not help, rest how many periods are waited
	// for the next.
	rested         float64
	rest, patience int
}

// The reasons for a value.
const (
	whyStart   = "it begins here"
	whyTrial   = "the consumer waits: trying whether more helps"
	whyHelped  = "more has helped"
	whyInVain  = "more did not help: the producer has no more"
	whyBrake   = "the consumer is the brake"
	whyEnough  = "the consumer is busy, and need not wait"
	whyMost    = "the consumer waits, and it is at the maximum"
	whyBytes   = "it is at the maximum in bytes"
	whyAtLeast = "the consumer is the brake, and it is at the minimum"
)

// New returns a Sizer that begins with start, which is within the bounds.
func New(b Bounds, start int64) *Sizer {
	return &Sizer{bounds: b, start: start, value: start, why: whyStart, settling: true}
}

// Anew returns one with the same bounds that has seen nothing; nil for nil.
func (s *Sizer) Anew() *Sizer {
	if s == nil {
		return nil
	}
	return New(s.bounds, s.start)
}

// Value is the demand as it should be.
func (s *Sizer) Value() int64 { return s.value }

// Why says in words why the value is what it is, and what is known of the flow.
func (s *Sizer) Why() string {
	why := s.why
	if s.measured > 0 {
		why += fmt.Sprintf("; round trip %v", s.trip().Round(time.Microsecond))
	}
	if s.bytes > 0 {
		why += fmt.Sprintf("; %.0f bytes an event", s.size())
	}
	return why
}

// Asked notes an ask, before which granted was asked for in all.
func (s *Sizer) Asked(granted int64, now time.Time) {
	if s.marked.IsZero() {
		s.marked, s.position = now, granted
	}
}

// Arrived notes n events, which have so many bytes, or 0 where that is not known. received
// is how many have arrived in all, and idle how long the consumer had nothing to do.
func (s *Sizer) Arrived(n, received, bytes int64, idle time.Duration, now time.Time) {
	if !s.marked.IsZero() && received > s.position {
		s.trips[s.measured%len(s.trips)] = now.Sub(s.marked)
		s.measured++
		s.marked = time.Time{}
	}
	s.idle += min(idle, now.Sub(s.since))
	if bytes == 0 {
		return
	}
	if s.events > float64(s.value) {
		s.events, s.bytes = s.events/2, s.bytes/2
	}
	s.events, s.bytes = s.events+float64(n), s.bytes+float64(bytes)
	if within := min(max(s.value, s.least()), s.most()); within != s.value {
		s.set(within, whyBytes)
	}
}

// Processed notes a batch of n, behind which backlog more wait, and returns the value.
func (s *Sizer) Processed(n, backlog int64, now time.Time) int64 {
	if s.since.IsZero() {
		s.begin(now)
		return s.value
	}
	s.processed += n
	s.batches++
	if backlog > s.value/2 {
		s.pressed++
	}
	switch elapsed := now.Sub(s.since); {
	case s.measured == 0:
	case s.settling:
		if elapsed > s.trip() {
			s.settling = false
			s.begin(now)
		}
	case s.batches >= periodBatches && elapsed >= max(periodTrips*s.trip(), periodLeast):
		s.judge(elapsed)
		s.begin(now)
	}
	return s.value
}

// begin begins a period.
func (s *Sizer) begin(now time.Time) {
	s.since, s.processed, s.batches, s.pressed, s.idle = now, 0, 0, 0, 0
}

// judge decides at the end of a period.
func (s *Sizer) judge(elapsed time.Duration) {
	rate := float64(s.processed) / elapsed.Seconds()
	waits := s.idle > elapsed/8
	switch {
	case s.idle == 0 && 4*s.pressed >= 3*s.batches:
		s.shrink(rate)
	case s.trying && waits && rate < s.rate*helpful:
		s.patience = min(max(2*s.patience, leastRest), mostRest)
		s.rest, s.rested = s.patience, s.rate
		s.set(min(s.before, s.value), whyInVain)
	case !waits:
		s.trying, s.patience, s.rest = false, 0, 0
		s.why = whyEnough
	case s.trying:
		s.patience = 0
		s.grow(rate)
	case s.rest > 0 && rate < s.rested*livelier:
		s.rest--
	default:
		s.grow(rate)
	}
}

// shrink moves halfway to what the consumer needs, which is the brake.
func (s *Sizer) shrink(rate float64) {
	s.trying, s.patience, s.rest = false, 0, 0
	needs := max(int64(min(3*rate*s.trip().Seconds(), float64(s.value))), s.least())
	switch to := (s.value + needs) / 2; {
	case s.value == s.least():
		s.why = whyAtLeast
	case s.value-to > s.value/8:
		s.set(to, whyBrake)
	case needs == s.least():
		s.set(needs, whyAtLeast)
	default:
		s.why = whyBrake
	}
}

// grow tries twice as much, where there is room.
func (s *Sizer) grow(rate float64) {
	most, from := s.most(), s.value
	to := min(2*from, most)
	switch {
	case to-from > from/4:
		s.set(to, whyTrial)
		s.trying, s.before, s.rate = true, from, rate
	case most < s.bounds.Max:
		s.trying, s.why = false, whyBytes
	default:
		s.trying, s.why = false, whyMost
	}
}

// set changes the value. What was measured with another one is not compared.
func (s *Sizer) set(value int64, why string) {
	s.value, s.why, s.settling, s.trying = value, why, true, false
}

// trip is the round trip.
func (s *Sizer) trip() time.Duration {
	shortest := s.trips[0]
	for _, t := range s.trips[1:min(s.measured, len(s.trips))] {
		shortest = min(shortest, t)
	}
	return shortest
}

// size is how many bytes an event has.
func (s *Sizer) size() float64 { return s.bytes / s.events }

// most is the largest value that the bounds allow, as large as events are.
func (s *Sizer) most() int64 {
	if s.bytes == 0 {
		return s.bounds.Max
	}
	fit := min(float64(s.bounds.Bytes)/s.size(), math.MaxInt32)
	return min(s.bounds.Max, max(int64(fit), 1))
}

// least is the smallest one.
func (s *Sizer) least() int64 { return min(s.bounds.Min, s.most()) }
