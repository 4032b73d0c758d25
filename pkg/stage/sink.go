package stage

import (
	"context"
	"time"
)

// Sink consumes events and thereby sets the pace.
//
// The fields are settings: set them before the stage is connected or run. A Sink
// runs once.
type Sink[T any] struct {
	// Name names the stage; default sink-n.
	Name string
	// OnSubscribed is told of each subscription when its producer has accepted it, before
	// its first batch: it may ask for events, or cancel it. Stop ends the stage well, any
	// other error and a panic fail it. Both hooks run on the stage's own goroutine, in
	// order with the batches.
	OnSubscribed func(*Subscription) error
	// OnCancelled is told of the end of each subscription of which OnSubscribed would
	// have been told, behind its last batch. It decides instead of the cancel mode: with
	// nil the stage lives on, Stop ends it well, any other error and a panic fail it. The
	// cancel mode decides about those that were never accepted, and nobody is told of
	// those that end with the stage.
	OnCancelled func(*Subscription, Ending) error
	// OnError says what happens when consume fails; by default the stage fails.
	OnError ErrorPolicy
	// DeadLetters takes what consume could not handle, with the policy ToDeadLetters.
	DeadLetters Letterbox[T]
	// OnDiscard is told of each number of events that were given up, and why. By default a
	// warning is logged. It runs on the stage's own goroutine, and a panic fails the stage.
	OnDiscard func(reason string, count int)
	// DrainTimeout bounds how long the stage takes to end when it is stopped;
	// default 30 s.
	DrainTimeout time.Duration

	consume func(ctx context.Context, events []T) error
	in      *inlet[T]
	life    life
}

var (
	_ Inlet[int] = (*Sink[int])(nil)
	_ Runner     = (*Sink[int])(nil)
	_ Inspector  = (*Sink[int])(nil)
)

// NewSink returns a sink that calls consume with each batch that arrives. When it
// returns, the batch counts as processed.
//
// The batch is consume's own for the call. [Stop] ends the stage well. An error or a
// panic fails it, and what it had not processed goes back to the producer, or does what
// OnError says; with [FailedAt] consume says how far it came. Calls never overlap. ctx ends when the stage has to stop at once.
func NewSink[T any](consume func(ctx context.Context, events []T) error) *Sink[T] {
	s := &Sink[T]{Name: defaultName("sink"), consume: consume}
	s.in = newInlet[T](&s.Name, s)
	return s
}

// Run runs the stage alone. See the function [Run].
func (s *Sink[T]) Run(ctx context.Context) error { return Run(ctx, s) }

// Ended is closed when the stage has ended.
func (s *Sink[T]) Ended() <-chan struct{} { return s.life.ended() }

// Inspect returns a snapshot. It does not wait for the handler.
func (s *Sink[T]) Inspect() Info {
	i := Info{Name: s.Name, Kind: "sink"}
	s.life.inspect(&i)
	s.in.inspect(&i)
	return i
}

func (s *Sink[T]) inlet() *inlet[T] {
	if s.in != nil {
		s.in.hook(s.OnSubscribed, s.OnCancelled, s.DeadLetters == nil)
	}
	return s.in
}

func (s *Sink[T]) ask() { s.in.ask() }

func (s *Sink[T]) isSink() bool { return true }

func (s *Sink[T]) result() error { return s.life.result() }

func (s *Sink[T]) open() error {
	if s.in == nil {
		return ErrNotMade
	}
	if err := s.life.begin(); err != nil {
		return err
	}
	s.in.how = &handling[T]{call: s.handle, policy: s.OnError, letters: s.DeadLetters, discard: s.OnDiscard}
	err := s.in.how.check()
	if err == nil {
		err = s.inlet().open()
	}
	if err != nil {
		s.in.close(verdict{Failed, err}, 0)
		s.life.end(s.Name, err)
		return err
	}
	feed(s.DeadLetters)
	return nil
}

func (s *Sink[T]) work(ctx context.Context, ours func(any) bool) {
	hard, release := extend(ctx, orDefault(s.DrainTimeout))
	defer release()
	v := verdict{Failed, ErrExited}
	defer func() {
		if v.err != nil {
			s.in.close(v, inHand)
		}
		starve(ctx, s.DeadLetters)
		s.life.end(s.Name, v.err)
	}()
	v = s.in.run(ctx, hard, ours)
}

func (s *Sink[T]) handle(ctx context.Context, events []T) error {
	return guard(func() error { return s.consume(ctx, events) })
}
