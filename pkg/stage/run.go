package stage

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// part is a stage of this package, as Run sees it.
type part interface {
	Runner
	Inspector
	// open makes the declared subscriptions, and ask asks for their first events.
	open() error
	ask()
	// work runs the stage until it has ended. ours says which outlets end when ctx
	// does.
	work(ctx context.Context, ours func(outlet any) bool)
	// result is the error with which it ended.
	result() error
	isSink() bool
}

// Run starts everything and returns when all stages have ended and the hosts have
// stopped, with their errors joined: those of the stages in the order in which they were
// given. It leaves no goroutine behind.
//
// Hosts are started first. Then the declared subscriptions are made, and only then
// do the stages begin: no event passes by a consumer that was declared. A stage
// that fails reaches the others through its subscriptions only.
//
// When ctx ends, the stages drain: sources stop producing, what was produced is
// processed, subscriptions to outlets elsewhere are cancelled, each within the
// stage's drain timeout. Run then returns the cause of ctx. When there is no host,
// and the last sink has ended, the other stages are drained too: nobody is left to
// ask them for anything.
func Run(ctx context.Context, runners ...Runner) error {
	r := newRun(ctx, runners)
	defer r.cancel(nil)
	if err := r.start(); err != nil {
		return err
	}
	r.work()
	return r.finish()
}

// running is one call of Run.
type running struct {
	outer  context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	all    []Runner
	hosts  []Host
	parts  []part
	others []Runner

	mu    sync.Mutex
	sinks int
	errs  []error // of others than stages
}

func newRun(ctx context.Context, runners []Runner) *running {
	r := &running{outer: ctx, all: runners}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	for _, one := range runners {
		switch one := one.(type) {
		case Host:
			r.hosts = append(r.hosts, one)
		case part:
			r.parts = append(r.parts, one)
			if one.isSink() {
				r.sinks++
			}
		default:
			r.others = append(r.others, one)
		}
	}
	return r
}

// start brings up the hosts and makes the declared subscriptions. What it has
// started when something fails, it stops.
func (r *running) start() error {
	for i, h := range r.hosts {
		if err := h.Start(r.ctx, r.all); err != nil {
			r.hosts = r.hosts[:i]
			return errors.Join(append([]error{err}, r.stopHosts()...)...)
		}
	}
	var opened []part
	var errs []error
	for _, p := range r.parts {
		if err := p.open(); err != nil {
			errs = append(errs, &Error{Stage: p.Inspect().Name, Err: err})
		} else {
			opened = append(opened, p)
		}
	}
	if len(errs) == 0 {
		// Only now, when everybody has subscribed: what a source holds already goes to all
		// of them.
		for _, p := range r.parts {
			p.ask()
		}
		return nil
	}
	// The others are open and end well, before anything has begun: none is left that
	// somebody could wait for, or that holds a name.
	r.parts, r.others = opened, nil
	r.cancel(errors.Join(errs...))
	r.work()
	return errors.Join(append(errs, r.stopHosts()...)...)
}

// work runs the stages and waits for them; with hosts alone it waits for ctx.
func (r *running) work() {
	relatives := familyOf(r.ctx)
	defer relatives.join(r.parts)()
	ours := func(outlet any) bool {
		return slices.ContainsFunc(r.parts, func(p part) bool { return any(p) == outlet }) || relatives.ends(outlet)
	}
	var wg sync.WaitGroup
	for _, p := range r.parts {
		wg.Go(func() {
			defer r.ended(p)
			p.work(r.ctx, ours)
		})
	}
	for _, o := range r.others {
		wg.Go(func() {
			err := error(ErrExited) // stands when it ends the goroutine
			defer func() { r.report(err) }()
			err = guard(func() error { return o.Run(r.ctx) })
			if r.ctx.Err() != nil && (err == r.ctx.Err() || err == context.Cause(r.ctx)) { //nolint:errorlint // a wrapped one is a failure
				err = nil // it was stopped, and says so
			}
		})
	}
	wg.Wait()
	if len(r.parts)+len(r.others) == 0 {
		<-r.ctx.Done()
	}
}

// ended draws the conclusions from the end of a stage.
func (r *running) ended(p part) {
	if !p.isSink() || len(r.hosts) > 0 {
		return
	}
	r.mu.Lock()
	r.sinks--
	last := r.sinks == 0
	r.mu.Unlock()
	if last {
		r.cancel(errNobodyLeft)
	}
}

var errNobodyLeft = errors.New("the last sink has ended")

func (r *running) report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// finish stops the hosts and joins the errors.
func (r *running) finish() error {
	stopped := r.outer.Err() != nil
	// In the order in which they were given, which is that of the flow more often than not:
	// a cause stands before what followed from it, whoever ended first.
	var errs []error
	for _, p := range r.parts {
		if err := p.result(); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(append(errs, r.errs...), r.stopHosts()...)
	if len(errs) == 0 && stopped {
		return context.Cause(r.outer)
	}
	return errors.Join(errs...)
}

func (r *running) stopHosts() (errs []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.outer), DefaultDrainTimeout)
	defer cancel()
	for i := len(r.hosts) - 1; i >= 0; i-- {
		if err := r.hosts[i].Stop(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
