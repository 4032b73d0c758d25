package stage

import (
	"context"
	"fmt"
)

// expect fails the stage when one that it is connected to is not run in time: events of
// that would be waited for in silence. release gives that up.
func (l *inlet[T]) expect() (release func()) {
	var releases []func()
	for _, d := range l.declared {
		if !unrun(d.outlet) {
			continue
		}
		s, _ := newSettings(d.opts) // the subscription was made of them
		timer, cancel := context.WithTimeoutCause(context.Background(), s.timeout, ErrNotRun)
		releases = append(releases, cancel, when(timer, func() {
			if unrun(d.outlet) && d.sub.current() != nil {
				l.stop(fmt.Errorf("subscribe to %q: %w", d.outlet.OutletName(), context.Cause(timer)))
			}
		}))
	}
	return func() {
		for i := len(releases) - 1; i >= 0; i-- {
			releases[i]()
		}
	}
}

// unrun reports whether an outlet is that of a stage of this process that has not begun.
func unrun[T any](outlet Outlet[T]) bool {
	if v, ok := outlet.(*view[T]); ok {
		return unrun(v.Outlet)
	}
	s, ok := outlet.(interface{ begun() bool })
	return ok && !s.begun()
}
