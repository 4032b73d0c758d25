package stage

import (
	"slices"
	"time"
)

// Tolerance is how many restarts are tolerated in which time. The zero value is the
// default: 3 in 5 seconds.
type Tolerance struct {
	// Restarts is the number that is tolerated; less than 0 counts as none.
	Restarts int
	// Within is the time in which they are counted, at least a second.
	Within time.Duration
}

// Defaults of Tolerance.
const (
	DefaultRestarts = 3
	DefaultWithin   = 5 * time.Second
)

// restarts counts restarts against a tolerance. It is a plain value; time is told.
type restarts struct {
	tolerance Tolerance
	at        []time.Time
}

func newRestarts(t Tolerance) restarts {
	if t == (Tolerance{}) {
		t = Tolerance{DefaultRestarts, DefaultWithin}
	}
	return restarts{tolerance: Tolerance{max(t.Restarts, 0), max(t.Within, time.Second)}}
}

// allow books a restart at now and reports whether it is tolerated: those that are
// no older than the time in which they are counted, this one included, are no more
// than the number.
func (r *restarts) allow(now time.Time) bool {
	r.at = slices.DeleteFunc(r.at, func(t time.Time) bool { return now.Sub(t) > r.tolerance.Within })
	r.at = append(r.at, now)
	return len(r.at) <= r.tolerance.Restarts
}
