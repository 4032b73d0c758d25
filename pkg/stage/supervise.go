package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Strategy says who is restarted when a child fails.
type Strategy int

const (
	// OneForOne: the child alone.
	OneForOne Strategy = iota
	// RestForOne: the child and those after it. With children in the order of the flow
	// and permanent subscriptions this is the one for pipelines.
	RestForOne
	// OneForAll: all of them.
	OneForAll
)

// Supervisor runs children and restarts those that fail. It is a [Runner].
type Supervisor struct {
	// Tolerance is how many restarts are tolerated; default 3 in 5 s. One more, and all
	// children are stopped and Run returns ErrTooManyRestarts, with what failed last.
	Tolerance Tolerance
	// OnRestart is told of each restart: which child, from 0, and why. By default a
	// warning is logged.
	OnRestart func(child int, why error)

	strategy Strategy
	children []func() Runner
	life     life
}

// Supervise returns a supervisor of children, each a function that makes a runner: a
// restart begins from fresh state. They are started in their order. A child that
// ends well is not restarted; Run returns when all have ended. The runners of one
// child may be several, with [Group].
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

// Run runs the children until all of them have ended, and stops them when ctx ends.
// It returns ErrTooManyRestarts, or nil, or the cause of ctx.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.life.begin(); err != nil {
		return err
	}
	running := make([]*child, len(s.children))
	ended := make(chan int, len(s.children))
	defer s.stop(running, 0, len(running))
	tolerated := newRestarts(s.Tolerance)
	delay := backoff.NewExponentialBackOff()
	delay.InitialInterval, delay.MaxInterval = 10*time.Millisecond, time.Second
	s.start(ctx, running, 0, len(running), ended)
	for {
		failed, why, alive := s.watch(ctx, running, ended)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case failed < 0 && !alive:
			return nil
		case failed < 0:
			continue
		case !tolerated.allow(time.Now()):
			return fmt.Errorf("%w: child %d: %w", ErrTooManyRestarts, failed, why)
		}
		s.report(failed, why)
		from, to := failed, failed+1
		switch s.strategy {
		case RestForOne:
			to = len(running)
		case OneForAll:
			from, to = 0, len(running)
		}
		s.stop(running, from, to)
		if !sleep(ctx, delay.NextBackOff()) {
			return context.Cause(ctx)
		}
		s.start(ctx, running, from, to, ended)
	}
}

// start starts children from up to, in their order.
func (s *Supervisor) start(ctx context.Context, running []*child, from, to int, ended chan<- int) {
	for i := from; i < to; i++ {
		own, cancel := context.WithCancelCause(ctx)
		c := &child{cancel: cancel, done: make(chan struct{})}
		running[i] = c
		go func() {
			defer func() {
				close(c.done)
				ended <- i
			}()
			c.err = ErrExited // stands when the goroutine is ended
			c.err = guard(func() error { return Run(own, s.children[i]()) })
		}()
	}
}

// watch waits for children to end, and returns the first one that failed, or -1, and
// whether any is left.
func (s *Supervisor) watch(ctx context.Context, running []*child, ended <-chan int) (failed int, why error, alive bool) {
	select {
	case <-ended:
	case <-ctx.Done():
		return -1, nil, true
	}
	failed, why, alive = look(running)
	if failed >= 0 && sleep(ctx, together) {
		failed, why, alive = look(running)
	}
	return failed, why, alive
}

func look(running []*child) (failed int, why error, alive bool) {
	failed = -1
	for i, c := range running {
		switch {
		case !isClosed(c.done):
			alive = true
		case c.err != nil && failed < 0:
			failed, why = i, c.err
		}
	}
	return failed, why, alive
}

// stop stops children from up to, the last one first, and waits for each.
func (s *Supervisor) stop(running []*child, from, to int) {
	for _, c := range slices.Backward(running[from:to]) {
		if c != nil {
			c.cancel(errRestarted)
			<-c.done
		}
	}
}

func (s *Supervisor) report(child int, why error) {
	if s.OnRestart == nil {
		slog.Warn("restarted", "child", child, "why", why)
		return
	}
	_ = guard(func() error { s.OnRestart(child, why); return nil })
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
