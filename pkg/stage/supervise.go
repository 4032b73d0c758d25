package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Strategy says who is restarted when a child fails.
type Strategy int

const (
	// OneForOne: the child alone. Not for pipelines: whoever subscribes to it, and is
	// permanent, fails with it, is restarted too, and counts.
	OneForOne Strategy = iota
	// RestForOne: the child and those after it. With children in the order of the flow
	// and permanent subscriptions this is the one for pipelines.
	RestForOne
	// OneForAll: all of them.
	OneForAll
)

// Supervisor runs children and restarts those that fail. It is a [Runner] and runs once.
type Supervisor struct {
	// Tolerance is how many restarts are tolerated; default 3 in 5 s. Children that fail
	// within 50 ms, or are restarted together, count as one. One more, and all children
	// are stopped and Run returns ErrTooManyRestarts, with what failed last.
	Tolerance Tolerance
	// OnRestart is told of each restart: which child has failed, from 0, and why. By
	// default a warning is logged. It runs on the goroutine of Run.
	OnRestart func(child int, why error)

	strategy Strategy
	children []func() Runner
	life     life
}

// Supervise returns a supervisor of children, each a function that makes a runner: a
// restart begins from fresh state. A child may be several runners, with [Group].
//
// The functions are called one after the other, in their order, and when all have
// returned, what they have made is run. So what one of them registers with [Names] the
// others find, whatever the order. They should not wait for anything.
//
// A child has failed when its Run returns an error or panics, or its function panics. It
// is restarted after a pause that grows with the number of restarts, up to a second; the
// strategy says who else is, whether it runs or has ended well. They are stopped in
// reverse order, and each has to come to its end, before the first is started again. A
// child that ends well is not restarted.
func Supervise(strategy Strategy, children ...func() Runner) *Supervisor {
	return &Supervisor{strategy: strategy, children: children}
}

// Group returns a runner that runs several, as the function [Run] does.
func Group(runners ...Runner) Runner { return group(runners) }

type group []Runner

func (g group) Run(ctx context.Context) error { return Run(ctx, g...) }

// child is a running one.
type child struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
}

// together is how long failures count as one: a consumer fails because its producer
// did, and may say so first.
const together = 50 * time.Millisecond

var errRestarted = errors.New("the supervisor restarts it")

// Run runs the children until all of them have ended well, and returns nil. When one has
// failed too often it stops them and returns ErrTooManyRestarts. When ctx ends, the
// children drain together, as the stages of one [Run] do: a subscription from one to
// another runs out. It then returns the errors of children that failed meanwhile, or
// else the cause of ctx. It leaves no goroutine behind.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.life.begin(); err != nil {
		return err
	}
	own := newFamily(ctx)
	defer familyOf(own).letGo()
	running := make([]*child, len(s.children))
	wake := make(chan struct{}, 1)
	defer stopAll(running)
	tolerated := newRestarts(s.Tolerance)
	s.start(own, running, 0, wake)
	for {
		failed, alive := look(running)
		if failed >= 0 && sleep(ctx, together) {
			failed, alive = look(running)
		}
		switch {
		case ctx.Err() != nil:
			return finished(ctx, running)
		case failed < 0 && !alive:
			return nil
		case failed < 0:
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		why := running[failed].err
		if !tolerated.allow(time.Now()) {
			return fmt.Errorf("%w: child %d: %w", ErrTooManyRestarts, failed, why)
		}
		s.report(failed, why)
		from, to := s.affected(failed)
		stopAll(running[from:to])
		for _, c := range running[from:to] {
			c.err = nil // it was reported
		}
		if sleep(ctx, tolerated.pause()) {
			s.start(own, running[:to], from, wake)
		}
	}
}

// affected is who is restarted when a child has failed.
func (s *Supervisor) affected(failed int) (from, to int) {
	switch s.strategy {
	case RestForOne:
		return failed, len(s.children)
	case OneForAll:
		return 0, len(s.children)
	}
	return failed, failed + 1
}

// start starts the children from from on: first all are made, and then they are run.
func (s *Supervisor) start(ctx context.Context, running []*child, from int, wake chan<- struct{}) {
	ready := make(chan struct{})
	defer close(ready)
	for i := from; i < len(running); i++ {
		own, cancel := context.WithCancelCause(ctx)
		// The error stands when the goroutine is ended.
		c := &child{cancel: cancel, done: make(chan struct{}), err: ErrExited}
		running[i] = c
		made := make(chan struct{})
		go func() {
			defer func() {
				cancel(nil)
				close(c.done)
				select {
				case wake <- struct{}{}:
				default:
				}
			}()
			r, err := s.produce(i, made)
			<-ready
			if err == nil {
				err = guard(func() error { return Run(own, r) })
			}
			c.err = err
		}()
		<-made
	}
}

// produce makes a child, and closes made in any case.
func (s *Supervisor) produce(i int, made chan<- struct{}) (r Runner, err error) {
	defer close(made)
	err = guard(func() error {
		if r = s.children[i](); r == nil {
			return errNothingMade
		}
		return nil
	})
	return r, err
}

var errNothingMade = errors.New("its function has returned no runner")

// look returns the first child that has failed, or -1, and whether any has not ended.
func look(running []*child) (failed int, alive bool) {
	failed = -1
	for i, c := range running {
		switch {
		case !isClosed(c.done):
			alive = true
		case c.err != nil && failed < 0:
			failed = i
		}
	}
	return failed, alive
}

// stopAll stops children, the last one first, and waits for each.
func stopAll(running []*child) {
	for _, c := range slices.Backward(running) {
		c.cancel(errRestarted)
		<-c.done
	}
}

// finished waits for children whose ctx has ended, and returns what has failed, or else
// the cause of ctx.
func finished(ctx context.Context, running []*child) error {
	var errs []error
	for i, c := range running {
		<-c.done
		if c.err != nil && c.err != ctx.Err() && c.err != context.Cause(ctx) { //nolint:errorlint // a wrapped one is a stage's
			errs = append(errs, fmt.Errorf("child %d: %w", i, c.err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return context.Cause(ctx)
}

func (s *Supervisor) report(child int, why error) {
	if s.OnRestart == nil {
		slog.Warn("restarted", "child", child, "why", why)
		return
	}
	if err := guard(func() error { s.OnRestart(child, why); return nil }); err != nil {
		slog.Error("OnRestart panicked", "why", err)
	}
}

// sleep waits for d, or reports false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
