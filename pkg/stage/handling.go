package stage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// handling is how a stage handles its batches.
type handling[T any] struct {
	call func(context.Context, []T) error
	// hold keeps asks back until release is called, and after is called after each batch.
	hold    bool
	after   func()
	policy  ErrorPolicy
	letters Letterbox[T]
	discard func(reason string, count int)
}

// check says what is wrong with the settings.
func (h *handling[T]) check() error {
	if h.policy.Then == ToDeadLetters && h.letters == nil {
		return errNoDeadLetters
	}
	return nil
}

// brokenOutlet is the error of a gate that cannot pass on what it has made: no policy is
// asked about it.
type brokenOutlet struct{ error }

func (e brokenOutlet) Unwrap() error { return e.error }

// inHand stands for all events of the batch in hand.
const inHand = math.MaxInt

// retrying is what is told of a batch that is tried again.
type retrying struct {
	err     error
	attempt int
}

// batch deals with a batch, and returns how the stage ends, if it does, and how many
// events in hand were tried then.
func (l *inlet[T]) batch(ctx context.Context, about *handlerContext, t task[T]) (v *verdict, tried int) {
	h := l.how
	events, at, err := l.selected(t)
	if err != nil {
		clear(t.events)
		return l.judge(ctx, err), inHand
	}
	kept, dealt := len(events), 0
	// settle books that the first n are dealt with, of those that the selector keeps, and
	// what it leaves out between them.
	settle := func(n int, hold bool) {
		to := n
		if at != nil {
			to = append(at, len(t.events))[n]
		}
		if to > dealt {
			l.done(to-dealt, hold)
			dealt = to
		}
	}
	if kept == 0 {
		settle(0, h.hold)
	}
	try, told := newTrial(h.policy, kept), false
	for try.left > 0 {
		from := kept - try.left
		if try.tries() > 0 || from > 0 {
			events = l.again(t, at, dealt, from, try.size)
		}
		r := t.run
		r.attempts += try.tries()
		about.set(t.in.sub, t.in.from, t.in.window.Acked()+1, r)
		err := h.call(about, events)
		clear(t.events)
		if err == Stop { //nolint:errorlint // a wrapped Stop is an error like another
			settle(from+try.size, true)
			return l.judge(ctx, err), 0
		}
		var pressed bool
		if err != nil {
			var cut bool
			pressed, cut = l.pressed(t.in)
			if b, broken := err.(brokenOutlet); broken || cut || ctx.Err() != nil { //nolint:errorlint // the one of Gate.handle
				return l.judge(ctx, cmp.Or(b.error, err)), inHand
			}
		}
		n, then := try.after(err, pressed)
		settle(from+n, h.hold || then == fail)
		if told && try.failed == 0 {
			l.tell(nil)
			told = false
		}
		switch then {
		case fail:
			return l.judge(ctx, err), try.size
		case wait:
			told = true
			if err := l.pause(t.in, try.delay(), &retrying{err, try.tries()}); err != nil {
				return l.judge(ctx, err), try.size
			}
		case giveUp:
			event := l.again(t, at, dealt, from+n, 1)[0]
			dead := DeadLetter[T]{
				Event: event, Attempts: t.run.attempts + try.tries(), Stage: *l.name, Outlet: t.in.name,
				Reason: DiscardHandler, Err: inWords(err),
			}
			clear(t.events)
			try.advance(1)
			settle(from+n+1, h.hold)
			if err := l.giveUp(dead); err != nil {
				return l.judge(ctx, err), 0
			}
		}
	}
	return nil, 0
}

// again returns size events of the batch, from the one that is number from of those that
// the selector keeps, which are at the indexes at. dealt of the batch are not in hand any
// more.
func (l *inlet[T]) again(t task[T], at []int, dealt, from, size int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	hand, events := t.in.events.items(), t.events[:0]
	for i := from; i < from+size; i++ {
		j := i
		if at != nil {
			j = at[i]
		}
		events = append(events, hand[j-dealt])
	}
	return events
}

// pressed reports whether there is no time to wait: the stage is stopped, at once with
// cut, or the subscription comes to its end.
func (l *inlet[T]) pressed(in *inflow[T]) (pressed, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut = l.cut != nil
	return cut || l.core.draining || in.leaving || in.ending != nil, cut
}

// tell says in Info what is tried again, and with nil that nothing is.
func (l *inlet[T]) tell(r *retrying) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retrying = r
}

// pause waits before what failed is tried again, unless there is no time. It returns why
// the stage ends at once, if it does.
func (l *inlet[T]) pause(in *inflow[T], d time.Duration, r *retrying) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retrying = r
	over := false
	timer := time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		over = true
		l.news.Broadcast()
	})
	defer timer.Stop()
	for !over && l.cut == nil && !l.core.draining && !in.leaving && in.ending == nil {
		l.news.Wait()
	}
	if l.cut != nil {
		return fmt.Errorf("%w, while this was tried again: %w", l.cut, r.err)
	}
	return nil
}

// giveUp sends an event that could not be handled to the dead letters, or discards it. A
// panic of OnDiscard is returned.
func (l *inlet[T]) giveUp(dead DeadLetter[T]) error {
	l.tell(nil)
	if l.how.policy.Then == ToDeadLetters && bury(l.how.letters, dead) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deadLettered++
		return nil
	}
	l.mu.Lock()
	l.skipped++
	l.mu.Unlock()
	if l.how.discard == nil {
		slog.Warn("events discarded", "stage", dead.Stage, "reason", dead.Reason, "count", 1, "outlet", dead.Outlet, "why", dead.Err)
		return nil
	}
	return guard(func() error { l.how.discard(dead.Reason, 1); return nil })
}
