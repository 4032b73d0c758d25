package stage

import (
	"context"
	"io"
	"iter"
	"time"
)

// FromSeq returns a source of the values of seq. It takes as many as are asked for,
// hands on what it has when a value was long in coming, and ends when seq does. seq
// is started once; a value that it waits for keeps the source from being stopped.
func FromSeq[T any](seq iter.Seq[T]) *Source[T] {
	var next func() (T, bool)
	var stop func()
	s := NewSource(func(ctx context.Context, demand int) ([]T, error) {
		if next == nil {
			next, stop = iter.Pull(seq)
		}
		events := make([]T, 0, demand)
		start := time.Now()
		for len(events) < demand && ctx.Err() == nil && (len(events) == 0 || time.Since(start) < patience) {
			v, ok := next()
			if !ok {
				return events, io.EOF
			}
			events = append(events, v)
		}
		return events, nil
	})
	s.cleanup = func() {
		if stop != nil {
			stop()
		}
	}
	return s
}

// patience is how long FromSeq collects.
const patience = 5 * time.Millisecond

// FromChan returns a source of what is sent on c. It receives as many as are asked
// for, hands on at once what is there, and ends when c is closed.
func FromChan[T any](c <-chan T) *Source[T] {
	return NewSource(func(ctx context.Context, demand int) ([]T, error) {
		var events []T
		select {
		case v, ok := <-c:
			if !ok {
				return nil, io.EOF
			}
			events = append(events, v)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for len(events) < demand {
			select {
			case v, ok := <-c:
				if !ok {
					return events, io.EOF
				}
				events = append(events, v)
			default:
				return events, nil
			}
		}
		return events, nil
	})
}

// All is a sink written as a loop: it yields the events of outlet one by one. The
// loop's pace is the pace of the flow: events count as processed when the body has
// had them. Leaving the loop cancels the subscription, and what was not yielded
// goes back. The sequence ends when the subscription does; where it did not end
// well, or ctx ended, the last pair carries the error. It can be used once.
//
// The outlet's stage must be running, in another goroutine or on another node.
func All[T any](ctx context.Context, outlet Outlet[T], opts ...Option) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		name := defaultName("loop")
		l := newInlet[T](&name, nil)
		err := ctx.Err()
		if err != nil {
			err = context.Cause(ctx)
		} else {
			var ask func()
			if ask, err = l.subscribe(outlet, newSubscription(), opts, false); err == nil {
				ask()
			}
		}
		if err != nil {
			yield(none, err)
			return
		}
		v := verdict{Failed, ErrExited} // stands when the body panics
		tried := 0
		defer func() { l.close(v, tried) }()
		unwatch := when(ctx, func() { l.stop(context.Cause(ctx)) })
		defer unwatch()
		var t task[T]
		for {
			var ended []*inflow[T]
			var over *verdict
			t, ended, over = l.next(t.events[:0])
			l.part(ctx, ended)
			if over == nil && t.in != nil {
				over = l.each(ctx, t, yield, &tried)
			}
			if over != nil {
				v = *over
				if v.err != nil {
					yield(none, v.err)
				}
				return
			}
			clear(t.events)
		}
	}
}

// each yields the events of a batch. It returns how the loop ends, if it does.
func (l *inlet[T]) each(ctx context.Context, t task[T], yield func(T, error) bool, tried *int) *verdict {
	had, returned := 0, true
	defer func() {
		if !returned {
			l.done(had, true) // the body has panicked at the next one
			*tried = 1
		}
	}()
	for _, e := range t.events {
		if ctx.Err() != nil {
			l.done(had, true)
			return &verdict{Failed, context.Cause(ctx)}
		}
		returned = false
		if t.in.keep != nil && !t.in.keep(e) {
			returned = true
			had++
			continue
		}
		more := yield(e, nil)
		returned = true
		had++
		if !more {
			l.done(had, true)
			return &verdict{reason: Cancelled}
		}
	}
	l.done(had, false)
	return nil
}

// Fold runs all events of outlet through f, beginning with init, and returns the
// last value. It returns an error instead where the subscription did not end well,
// ctx ended, or f panicked. See [All].
func Fold[T, A any](ctx context.Context, outlet Outlet[T], init A, f func(A, T) A, opts ...Option) (A, error) {
	acc := init
	err := guard(func() error {
		for event, err := range All(ctx, outlet, opts...) {
			if err != nil {
				return err
			}
			acc = f(acc, event)
		}
		return nil
	})
	if err != nil {
		var none A
		return none, err
	}
	return acc, nil
}
