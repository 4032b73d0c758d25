package stage

import (
	"context"
	"io"
	"iter"
)

// FromSeq returns a source of the values of seq. It takes as many as are asked
// for, and ends when seq does. seq is started once; a value that it waits for
// keeps the source from being stopped.
func FromSeq[T any](seq iter.Seq[T]) *Source[T] {
	var next func() (T, bool)
	var stop func()
	s := NewSource(func(_ context.Context, demand int) ([]T, error) {
		if next == nil {
			next, stop = iter.Pull(seq)
		}
		events := make([]T, 0, demand)
		for len(events) < demand {
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
		if err := l.subscribe(outlet, newSubscription(), opts); err != nil {
			yield(none, err)
			return
		}
		v := verdict{Failed, ErrExited} // stands when the body panics
		defer func() { l.close(v, v.err != nil) }()
		unwatch := context.AfterFunc(ctx, l.stop)
		defer unwatch()
		var events []T
		for {
			var over *verdict
			if events, over = l.next(events[:0]); over != nil {
				v = *over
				if ctx.Err() != nil {
					v.err = context.Cause(ctx)
				}
				if v.err != nil {
					yield(none, v.err)
				}
				return
			}
			for i, e := range events {
				if !yield(e, nil) {
					l.done(i+1, false)
					v = verdict{reason: Cancelled}
					return
				}
			}
			l.done(len(events), false)
		}
	}
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
