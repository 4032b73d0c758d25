package stage

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// Source produces events, and only as many as were asked for.
//
// The fields are settings: set them before the stage is connected, published or
// run. A Source runs once.
type Source[T any] struct {
	// Name names the stage and its outlet; default source-n.
	Name string
	// Dispatcher decides who gets which event; default dispatch.Demand.
	Dispatcher dispatch.Dispatcher[T]
	// Buffer keeps what was produced beyond the demand; default KeepLast(10,000).
	Buffer Buffer
	// OnDiscard is told of each number of events that were given up, and why. By
	// default a warning is logged. It runs on the goroutine that gave them up.
	OnDiscard func(reason string, count int)
	// OnSubscribers is told of each subscriber that arrives or leaves, once, on the
	// stage's own goroutine: what a newcomer asks for is produced afterwards, unless a
	// handler runs already. A panic fails the stage. It is told of nothing any more when
	// the stage ends.
	OnSubscribers func(SubscriberChange)
	// Accumulate holds what is asked for, until Forward: so that a whole pipeline can be
	// connected before anything moves. What is pushed meanwhile is buffered. A source that
	// is stopped holds nothing any longer.
	Accumulate bool
	// MaxAttempts is how often an event may come back from a handler that had it and did
	// not finish: the last time it is discarded by the name of DiscardExhausted, and sent
	// to DeadLetters, where that is set. Default DefaultMaxAttempts; NoMaxAttempts, or any
	// number below 0, is without limit. With 1 the neighbours go too that shared a batch
	// with the event that failed, unless the handler says which that was (FailedAt).
	MaxAttempts int
	// DeadLetters takes the events whose attempts are exhausted.
	DeadLetters Letterbox[T]
	// DrainTimeout bounds how long the stage takes to end when it is stopped;
	// default 30 s.
	DrainTimeout time.Duration

	produce func(ctx context.Context, demand int) ([]T, error)
	cleanup func()
	// finished ends the ctx of the handler when the source is to finish.
	finished context.Context
	finish   context.CancelFunc
	out      *outlet[T]
	feeders  int    // stages that send to it as their dead letters; under the lock of out
	starved  func() // is called when the last of them has ended; likewise
	life     life
}

// How often an event may come back from a handler that had it.
const (
	DefaultMaxAttempts = 5
	NoMaxAttempts      = -1
)

// attempts returns n, or the default where n is 0; without a limit, 0.
func attempts(n int) int {
	if n == 0 {
		n = DefaultMaxAttempts
	}
	return max(n, 0)
}

var (
	_ Outlet[int] = (*Source[int])(nil)
	_ Runner      = (*Source[int])(nil)
	_ Inspector   = (*Source[int])(nil)
)

// NewSource returns a source that calls produce whenever there is demand that is
// not met, with the number of events that are wanted now.
//
// produce may wait for events, under its ctx, which ends when the stage is stopped.
// When it returns some events but fewer than were wanted, it is called again for
// the rest; when it returns none, it is called again after the next ask. It may
// return more than was wanted: the rest is buffered. It ends the source by returning
// io.EOF itself, together with its last events; any other error fails the stage,
// and so does a panic. The slice it returns is free again when it is called next; the
// events in it are sluice's. Calls never overlap.
//
// Without produce, the source's events are those that are pushed, and those that the
// handlers of its messages return.
func NewSource[T any](produce func(ctx context.Context, demand int) ([]T, error)) *Source[T] {
	s := &Source[T]{Name: defaultName("source"), produce: produce}
	s.finished, s.finish = context.WithCancel(context.Background())
	s.out = newOutlet(&s.Name, func() (dispatch.Dispatcher[T], Buffer) {
		s.out.discard = s.OnDiscard
		s.out.accumulate = s.Accumulate
		s.out.maxAttempts, s.out.bury = attempts(s.MaxAttempts), burial(s.DeadLetters, &s.Name)
		s.out.announce(s.OnSubscribers, func(f call) bool {
			open := s.out.core.closing == nil
			if open {
				s.out.calls.push(f)
			}
			return open
		})
		return s.Dispatcher, s.Buffer.or(KeepLast(DefaultCapacity))
	})
	return s
}

// OutletName implements [Outlet].
func (s *Source[T]) OutletName() string { return s.Name }

// Attach implements [Outlet].
func (s *Source[T]) Attach(terms Terms, r Receiver[T]) (Upstream[T], error) {
	return s.out.attach(terms, nil, r)
}

// Done implements [Outlet].
func (s *Source[T]) Done() <-chan struct{} { return s.out.ended() }

// Tap implements [Tapper].
func (s *Source[T]) Tap(watch func(events []T)) (stop func()) { return s.out.tap(watch) }

// Run runs the stage alone. See the function [Run].
func (s *Source[T]) Run(ctx context.Context) error { return Run(ctx, s) }

// Ended is closed when the stage has ended.
func (s *Source[T]) Ended() <-chan struct{} { return s.life.ended() }

// Inspect returns a snapshot. It does not wait for the handler.
func (s *Source[T]) Inspect() Info {
	i := Info{Name: s.Name, Kind: "source"}
	s.life.inspect(&i)
	s.out.inspect(&i)
	return i
}

func (s *Source[T]) open() error {
	if s.out == nil {
		return ErrNotMade
	}
	if err := s.life.begin(); err != nil {
		return err
	}
	feed(s.DeadLetters)
	return nil
}

func (s *Source[T]) ask() {}

func (s *Source[T]) begun() bool { return s.life.begun() }

func (s *Source[T]) isSink() bool { return false }

func (s *Source[T]) result() error { return s.life.result() }

func (s *Source[T]) work(ctx context.Context, _ func(any) bool) {
	hard, release := extend(ctx, orDefault(s.DrainTimeout))
	defer release()
	ctx, giveUp := s.outlast(ctx, hard)
	defer giveUp()
	defer when(ctx, s.out.hurry)()
	ending := Ending{Reason: Failed, Err: ErrExited}
	// Deferred, so that it is done also when the handler ends the goroutine.
	defer func() {
		s.life.set("ending")
		s.out.end(ending)
		s.out.drain(orDefault(s.DrainTimeout), hard.Done())
		if s.cleanup != nil {
			s.cleanup()
		}
		s.out.reported()
		starve(ctx, s.DeadLetters)
		s.life.end(s.Name, s.out.failure())
	}()
	// Handlers have contexts of their own: they end too when the producer fails behind
	// their back, and the one that waits for events when the source is to finish.
	hctx, crash := context.WithCancel(ctx)
	defer crash()
	s.out.onCrash(func(error) { crash() })
	pctx, cancel := context.WithCancel(hctx)
	defer cancel()
	defer when(s.finished, cancel)()
	ending = s.loop(ctx, hctx, pctx)
}

// loop produces until the source comes to its end. Calls are made under hctx, and
// produce is called under pctx.
func (s *Source[T]) loop(ctx, hctx, pctx context.Context) Ending {
	stopped := func() bool { return ctx.Err() != nil }
	seen := uint64(0)
	for {
		d, ok := s.out.await(seen, stopped)
		if !ok {
			return s.ending(ctx)
		}
		var events []T
		under := pctx
		err := guard(func() (err error) {
			switch {
			case d.call != nil:
				under = hctx
				err = d.call(hctx)
			case s.produce != nil:
				events, err = s.produce(pctx, atOnce(d.demand))
			}
			return err
		})
		if err2 := s.out.emit(events); err2 != nil {
			return Ending{Reason: Failed, Err: err2}
		}
		switch {
		case err == nil && d.call != nil:
			seen = 0
		case err == nil:
			seen = 0
			if len(events) == 0 {
				seen = d.asks
			}
		case err == io.EOF: //nolint:errorlint // a wrapped EOF is a failure of what the source reads
			return Ending{Reason: Completed}
		case under.Err() != nil && (errors.Is(err, under.Err()) || errors.Is(err, context.Cause(under))):
			// Stopped, or finished. What was sent to it before it was finished comes first.
			if stopped() || s.out.failure() != nil {
				return s.ending(ctx)
			}
			seen = d.asks
		default:
			return Ending{Reason: Failed, Err: err}
		}
	}
}

// ending is how a source ends that did not end itself.
func (s *Source[T]) ending(ctx context.Context) Ending {
	if ctx.Err() != nil {
		return Ending{Reason: Shutdown}
	}
	return Ending{Reason: Completed}
}

// atOnce limits what a handler is asked for in one call: it may well make a slice
// of that size.
func atOnce(demand int64) int { return int(min(demand, math.MaxUint16)) }
