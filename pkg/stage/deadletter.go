package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// DeadLetter is an event that was given up, and why.
type DeadLetter[T any] struct {
	Event T `json:"event"`
	// Attempts is how often a handler had the event and did not finish.
	Attempts int `json:"attempts"`
	// Stage is the one that has given it up, and Outlet where the event comes from: the
	// outlet that the stage subscribes to, or its own where its MaxAttempts are over.
	Stage  string `json:"stage"`
	Outlet string `json:"outlet"`
	// Reason is DiscardHandler or DiscardExhausted, and Err what the handler said, or
	// why the event came back.
	Reason string `json:"reason"`
	Err    string `json:"error"`
}

// A Letterbox is where events go that are given up: what [NewDeadLetters] returns, or
// [LettersAs].
type Letterbox[T any] interface {
	take(letter DeadLetter[T]) error
	feed()
	starve(ctx context.Context)
	OutletName() string
}

// NewDeadLetters returns an outlet for events that are given up. It is a [Source] whose
// events are pushed, by the stages that name it as their DeadLetters; give it to [Run]
// as any other, and subscribe to it or publish it.
//
// Whoever sends to it never waits: what nobody has asked for is buffered, by default the
// newest 10,000, and what is over that is discarded here, by the name of DiscardOverflow.
// It ends when the last of those stages has ended, also when all are stopped together,
// though then within its drain timeout; those of a supervisor end with the supervisor,
// however often they are restarted. A stage that begins to send after that
// finds it ended, and discards.
func NewDeadLetters[T any]() *Source[DeadLetter[T]] {
	s := NewSource[DeadLetter[T]](nil)
	s.Name = defaultName("dead-letters")
	return s
}

// LettersAs returns a letterbox for stages whose dead letters go to an outlet of other
// events: as turns each letter into one, when it is sent, and to is a source that was
// made without a handler. So stages of different events may share one outlet, which ends
// when the last of them has ended.
//
// as is called by several goroutines at once. When it panics, its letter is not taken.
func LettersAs[T, E any](to *Source[E], as func(DeadLetter[T]) E) Letterbox[T] {
	return &lettersAs[T, E]{to, as}
}

type lettersAs[T, E any] struct {
	*Source[E]
	as func(DeadLetter[T]) E
}

func (l *lettersAs[T, E]) take(letter DeadLetter[T]) error {
	return guard(func() error { return l.Push(l.as(letter)) })
}

// errNoDeadLetters refuses to run a stage with the policy ToDeadLetters that has none.
var errNoDeadLetters = errors.New("OnError is to send to DeadLetters, and no outlet is named there: set DeadLetters, to what NewDeadLetters returns")

func (s *Source[T]) take(event T) error { return s.Push(event) }

// feed books that a stage may send to the source.
func (s *Source[T]) feed() {
	if s.out == nil {
		return // it is a literal, and takes nothing
	}
	s.out.lock()
	defer s.out.mu.Unlock()
	s.feeders++
}

// starve books that a stage sends no more, which began with ctx. After the last one the
// source finishes.
func (s *Source[T]) starve(ctx context.Context) {
	if s.out == nil {
		return
	}
	release := func() {
		s.out.lock()
		s.feeders--
		last, starved := s.feeders == 0, s.starved
		s.out.mu.Unlock()
		if last && starved != nil {
			starved()
		}
		if last {
			s.Finish()
		}
	}
	if f := familyOf(ctx); f == nil || !f.hold(s, release) {
		release()
	}
}

// outlast returns a context for a source that is stopped when ctx ends: it ends with ctx,
// but not before the stages that send to the source, which still handle what is on its
// way, unless hard ends.
func (s *Source[T]) outlast(ctx, hard context.Context) (last context.Context, release func()) {
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	starved := func() { cancel(context.Cause(ctx)) }
	give := when(ctx, func() {
		s.out.lock()
		fed := s.feeders > 0
		s.starved = starved
		s.out.mu.Unlock()
		if !fed {
			starved()
		}
	})
	cut := when(hard, starved)
	return last, func() {
		give()
		cut()
		cancel(nil)
	}
}

// feed says that a stage may send to letters, if it has any.
func feed[T any](letters Letterbox[T]) {
	if letters != nil {
		letters.feed()
	}
}

func starve[T any](ctx context.Context, letters Letterbox[T]) {
	if letters != nil {
		letters.starve(ctx)
	}
}

// bury sends an event to letters, and reports whether it was taken.
func bury[T any](letters Letterbox[T], l DeadLetter[T]) bool {
	if letters == nil {
		return false
	}
	if err := letters.take(l); err != nil {
		slog.Warn("dead letter not taken", "stage", l.Stage, "outlet", letters.OutletName(), "why", err)
		return false
	}
	return true
}

// inWords is what an error says in a dead letter: a panic without its stack.
func inWords(err error) string {
	if err == nil {
		return ""
	}
	if p := new(PanicError); errors.As(err, &p) {
		return fmt.Sprintf("panic: %v", p.Value)
	}
	return err.Error()
}

// burial returns what sends events to letters whose attempts are exhausted, or nil.
func burial[T any](letters Letterbox[T], name *string) func([]Returned[T], error) {
	if letters == nil {
		return nil
	}
	return func(rest []Returned[T], why error) {
		for _, r := range rest {
			bury(letters, DeadLetter[T]{
				Event: r.Event, Attempts: r.Attempts, Stage: *name, Outlet: *name, Reason: DiscardExhausted, Err: inWords(why),
			})
		}
	}
}
