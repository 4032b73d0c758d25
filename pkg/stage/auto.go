package stage

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/sluicenet/sluice/internal/autodemand"
)

// Auto are the bounds of [AutoDemand]. What is 0 has its default.
type Auto struct {
	// Min and Max are the least and the most events that are asked for and not yet
	// processed. The defaults are 100 and 32,000, and MaxDemand where that is outside of them.
	Min, Max int
	// MaxBytes is how many bytes that may be, by the size of the events that came last;
	// default 8 MiB. It comes before Min, and may let a single event pass that is larger.
	// Sizes are known of events from another process, once the first have come. Within
	// one process MaxBytes has no effect.
	MaxBytes int64
}

// Defaults of [Auto].
const (
	DefaultAutoMin   = 100
	DefaultAutoMax   = 32_000
	DefaultAutoBytes = 8 << 20
)

// AutoDemand lets the consumer size its max demand by itself. It grows while the consumer
// is idle and more helps, as on a link with a long round trip, and shrinks when the
// consumer is the brake, to a little more than it processes in a round trip, so that the
// rest waits at the producer, for whoever has time. SubscriptionInfo says what it is and why.
//
// It begins with MaxDemand, which is within the bounds; where that is not set, with the
// default as far as the bounds allow. MinDemand follows in proportion, and the largest
// batch of the handler stays max-min of the beginning. A subscription that several nodes
// stand behind has a demand for each of them, and the bounds hold for each.
//
// Bounds that are negative or out of order are refused with ErrInvalidDemand, and so is
// AutoDemand with [Manual] or [Unbounded]. Workers, which have an event each, refuse it with
// ErrUnsupportedDemandMode.
func AutoDemand(bounds Auto) Option { return option(func(s *settings) { s.auto = &bounds }) }

// size fills in the bounds, and where it begins, and checks them.
func (s *settings) size() error {
	t, a := &s.terms, *s.auto
	if s.maxSet {
		a.Min = cmp.Or(a.Min, int(min(DefaultAutoMin, t.MaxDemand)))
		a.Max = cmp.Or(a.Max, int(max(DefaultAutoMax, min(t.MaxDemand, math.MaxInt32))))
	}
	a.Max = cmp.Or(a.Max, max(DefaultAutoMax, a.Min))
	a.Min = cmp.Or(a.Min, min(DefaultAutoMin, a.Max))
	a.MaxBytes = cmp.Or(a.MaxBytes, DefaultAutoBytes)
	if a.Min < 1 || a.Max < a.Min || a.Max > math.MaxInt32 || a.MaxBytes < 1 {
		return fmt.Errorf("%w: AutoDemand from %d to %d, %d bytes: want 1 <= Min <= Max < 1<<31 and 1 <= MaxBytes", ErrInvalidDemand, a.Min, a.Max, a.MaxBytes)
	}
	if t.Manual {
		return fmt.Errorf("%w: AutoDemand with Manual: one of them has to do the asking", ErrInvalidDemand)
	}
	if !s.maxSet {
		if within := min(max(t.MaxDemand, int64(a.Min)), int64(a.Max)); within != t.MaxDemand {
			t.MaxDemand, s.maxSet = within, true
		}
	}
	if t.MaxDemand < int64(a.Min) || t.MaxDemand > int64(a.Max) {
		return fmt.Errorf("%w: AutoDemand from %d to %d begins with a max demand of %d: set MaxDemand within the bounds", ErrInvalidDemand, a.Min, a.Max, t.MaxDemand)
	}
	s.auto = &a
	return nil
}

// sizer is what the options say about the size of a window: nil where it stays.
func (s *settings) sizer() *autodemand.Sizer {
	if s.auto == nil {
		return nil
	}
	b := autodemand.Bounds{Min: int64(s.auto.Min), Max: int64(s.auto.Max), Bytes: s.auto.MaxBytes}
	return autodemand.New(b, s.terms.MaxDemand)
}

// arrives tells the sizer of a subscription what comes. l.mu is held.
func (l *inlet[T]) arrives(in *inflow[T], n, bytes int64) {
	now, waited := time.Now(), time.Duration(0)
	if l.meter.doing == idle && l.core.turns.len() == 0 {
		waited = now.Sub(l.meter.since)
	}
	in.auto.Arrived(n, in.window.Received()+n, bytes, waited, now)
}

// resize lets the sizer of a subscription change its window, of which n events are about
// to be booked as processed.
func (in *inflow[T]) resize(n int64) {
	if in.auto == nil {
		return
	}
	w := &in.window
	if most := in.auto.Processed(n, w.Received()-w.Acked()-n, time.Now()); most != w.Max() {
		w.Resize(most, most*in.terms.MinDemand/in.terms.MaxDemand)
	}
}

// asked tells the sizer of a subscription of an ask that leaves, or of none.
func (in *inflow[T]) asked(n int64) {
	if in.auto != nil && n > 0 {
		in.auto.Asked(in.window.Sent()-n, time.Now())
	}
}
