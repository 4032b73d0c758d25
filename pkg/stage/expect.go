package stage

import (
	"fmt"
	"slices"
	"time"
)

// expected are the stages that an inlet subscribes to and nobody runs yet: events of
// those would be waited for in silence. They are watched while the inlet's own runs.
type expected[T any] struct {
	watching bool
	later    []declaration[T] // to be watched when the inlet's stage runs
	watches  []watch
}

// watch is the timer of a subscription.
type watch struct {
	sub   *Subscription
	timer *time.Timer
}

// expect fails the stage when one that it has subscribed to is not run in time.
func (l *inlet[T]) expect(d declaration[T]) {
	if !unrun(d.outlet) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.expected
	switch {
	case l.closed:
	case e.watching:
		l.watch(d)
	default:
		e.later = slices.DeleteFunc(e.later, func(d declaration[T]) bool { return d.sub.current() == nil })
		e.later = append(e.later, d)
	}
}

// expectAll begins with those that were declared, and those that the stage has subscribed
// to before it runs. release gives up all of them, and those that follow.
func (l *inlet[T]) expectAll() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected.watching = true
	for _, d := range slices.Concat(l.declared, l.expected.later) {
		if unrun(d.outlet) {
			l.watch(d)
		}
	}
	l.expected.later = nil
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, w := range l.expected.watches {
			w.timer.Stop()
		}
		l.expected = expected[T]{}
	}
}

// watch starts a timer. l.mu is held.
func (l *inlet[T]) watch(d declaration[T]) {
	e := &l.expected
	e.watches = slices.DeleteFunc(e.watches, func(w watch) bool {
		ended := w.sub.current() == nil
		if ended {
			w.timer.Stop()
		}
		return ended
	})
	s, _ := newSettings(d.opts) // the subscription was made of them
	e.watches = append(e.watches, watch{d.sub, time.AfterFunc(s.timeout, func() {
		if unrun(d.outlet) && d.sub.current() != nil {
			l.stop(fmt.Errorf("subscribe to %q: %w", d.outlet.OutletName(), ErrNotRun))
		}
	})})
}

// unrun reports whether an outlet is that of a stage of this process that has not begun.
func unrun[T any](outlet Outlet[T]) bool {
	if v, ok := outlet.(*view[T]); ok {
		return unrun(v.Outlet)
	}
	s, ok := outlet.(interface{ begun() bool })
	return ok && !s.begun()
}
