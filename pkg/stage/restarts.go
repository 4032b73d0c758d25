package stage

import (
	"slices"
	"time"
)

// Tolerance is how many restarts are tolerated in which time. The zero value is the
// default: 3 in 5 seconds. To tolerate none, set Restarts to -1.
type Tolerance struct {
	// Restarts is the number that is tolerated; less than 0 counts as none.
	Restarts int
	// Within is the time in which they are counted; default 5 seconds, at least one.
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
	if t.Within == 0 {
		t.Within = DefaultWithin
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

// pause is how long to wait before the restart that was booked last: twice as long with
// each one that counts, and at most a second.
func (r *restarts) pause() time.Duration {
	return min(10*time.Millisecond<<min(len(r.at)-1, 10), time.Second)
}
