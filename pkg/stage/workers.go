package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Workers is a sink that runs each event in a worker of its own, several at once.
//
// The max demand of a subscription is the number of its slots. A worker takes one,
// from when its event was asked for until the worker has ended for good. When the free
// slots are as many as max minus min demand, they are asked for, so min demand 0 refills
// them all at once and max-1 each by itself. Events count as processed when their
// workers have ended, in whatever order they do.
//
// Workers that fail are reported and given up, or started again, as Restart says. It
// does its own asking: a manual subscription is refused with ErrUnsupportedDemandMode,
// and so is Subscription.Ask. The fields are settings: set them before the stage is
// connected or run. It runs once.
type Workers[T any] struct {
	// Name names the stage; default workers-n, or pool-n.
	Name string
	// Restart says what becomes of a worker that fails; default Never.
	Restart Restart
	// Tolerance is how many restarts, of all workers together, the stage bears before
	// it fails with ErrTooManyRestarts; default 3 in 5 s.
	Tolerance Tolerance
	// ShutdownTimeout is how long workers may take to end when they are told to;
	// default 5 s. Those who take longer are abandoned: they are counted in Info, and
	// their slots are free.
	ShutdownTimeout time.Duration
	// OnFailure is told of each worker that fails and is given up. By default a warning
	// is logged. It runs on the worker's goroutine.
	OnFailure func(event T, err error)
	// DrainTimeout bounds how long the stage takes to end when it is stopped;
	// default 30 s.
	DrainTimeout time.Duration

	run   func(ctx context.Context, event T) error
	slots int // of a pool: they do not depend on the subscription
	in    *inlet[T]
	life  life

	mu        sync.Mutex
	crew      map[int64]*worker[T]
	lastID    int64
	restarts  restarts
	abandoned int64
	failed    int64
	stopping  bool
	idle      chan struct{} // closed when the last worker of a stopping stage has ended
}

// Restart says what becomes of a worker that fails: its function returns an error, or
// panics. One that ends because its ctx has ended has not failed.
type Restart int

const (
	// Never: it is reported, and its event is given up.
	Never Restart = iota
	// OnFailure: it is started again with the same event, in the same slot.
	OnFailure
)

// worker handles one event.
type worker[T any] struct {
	id     int64
	in     *inflow[T]
	at     int64
	event  T
	status WorkerStatus
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended for good, or was abandoned
}

// WorkerStatus is what a worker does.
type WorkerStatus string

// The states of a worker.
const (
	WorkerRunning     WorkerStatus = "running"
	WorkerTerminating WorkerStatus = "terminating"
)

// WorkerInfo is one worker.
type WorkerInfo[T any] struct {
	// ID stays the same over restarts. IDs grow from 1.
	ID     int64
	Event  T
	Status WorkerStatus
}

var (
	_ Inlet[int] = (*Workers[int])(nil)
	_ Inspector  = (*Workers[int])(nil)
)

// NewWorkers returns a stage that runs work for each event, each in a goroutine of
// its own. ctx ends when the worker is told to end. An error or a panic of work fails
// that worker.
func NewWorkers[T any](work func(ctx context.Context, event T) error) *Workers[T] {
	w := &Workers[T]{Name: defaultName("workers"), run: work, crew: map[int64]*worker[T]{}}
	w.in = newInlet[T](&w.Name, w)
	w.in.adapt = w.adapt
	return w
}

// NewPool returns a stage that runs work for each event, at most concurrency (at least
// 1) at once for each subscription, and asks for another event whenever one is done.
// Its subscriptions take no demand options: they are refused with
// ErrUnsupportedDemandMode.
func NewPool[T any](concurrency int, work func(ctx context.Context, event T) error) *Workers[T] {
	w := NewWorkers(work)
	w.Name = defaultName("pool")
	w.slots = max(concurrency, 1)
	return w
}

// adapt accepts the terms of a subscription.
func (w *Workers[T]) adapt(s *settings) error {
	if s.terms.Manual || w.slots > 0 && (s.maxSet || s.minSet) {
		return ErrUnsupportedDemandMode
	}
	if w.slots > 0 {
		s.terms.MaxDemand, s.terms.MinDemand = int64(w.slots), int64(w.slots-1)
	}
	return nil
}

// Run runs the stage alone. See the function [Run].
func (w *Workers[T]) Run(ctx context.Context) error { return Run(ctx, w) }

// Ended is closed when the stage has ended.
func (w *Workers[T]) Ended() <-chan struct{} { return w.life.ended() }

// Inspect returns a snapshot. It does not wait for workers.
func (w *Workers[T]) Inspect() Info {
	i := Info{Name: w.Name, Kind: "sink"}
	w.life.inspect(&i)
	w.in.inspect(&i)
	w.mu.Lock()
	defer w.mu.Unlock()
	i.Workers, i.Failed, i.Abandoned = len(w.crew), w.failed, w.abandoned
	return i
}

// Workers lists those that run, in the order of their IDs.
func (w *Workers[T]) Workers() []WorkerInfo[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]WorkerInfo[T], 0, len(w.crew))
	for _, one := range w.crew {
		all = append(all, WorkerInfo[T]{one.id, one.event, one.status})
	}
	slices.SortFunc(all, func(a, b WorkerInfo[T]) int { return int(a.ID - b.ID) })
	return all
}

// Count is how many workers run.
func (w *Workers[T]) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.crew)
}

// Terminate ends a worker: its ctx ends, and when it has ended its slot is free. It is
// not started again. One that ignores its ctx past the shutdown timeout is abandoned.
// It returns ErrNoWorker, or the cause of ctx.
func (w *Workers[T]) Terminate(ctx context.Context, id int64) error {
	w.mu.Lock()
	one := w.crew[id]
	if one == nil {
		w.mu.Unlock()
		return fmt.Errorf("%w: %d", ErrNoWorker, id)
	}
	one.status = WorkerTerminating
	w.mu.Unlock()
	one.cancel()
	timer := time.NewTimer(w.shutdownTimeout())
	defer timer.Stop()
	select {
	case <-one.done:
	case <-timer.C:
		w.abandon(one)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (w *Workers[T]) shutdownTimeout() time.Duration {
	if w.ShutdownTimeout == 0 {
		return 5 * time.Second
	}
	return max(w.ShutdownTimeout, 0)
}

func (w *Workers[T]) inlet() *inlet[T] { return w.in }

func (w *Workers[T]) isSink() bool { return true }

func (w *Workers[T]) result() error { return w.life.result() }

func (w *Workers[T]) open() error {
	if err := w.life.begin(); err != nil {
		return err
	}
	w.restarts = newRestarts(w.Tolerance)
	if err := w.in.open(); err != nil {
		w.in.close(verdict{Failed, err}, false)
		w.life.end(w.Name, err)
		return err
	}
	return nil
}

func (w *Workers[T]) work(ctx context.Context, ours func(any) bool) {
	hard, release := extend(ctx, orDefault(w.DrainTimeout))
	defer release()
	defer context.AfterFunc(ctx, func() { w.in.drain(ours) })()
	defer context.AfterFunc(hard, func() { w.in.stop(context.Cause(hard)) })()
	v := w.loop(hard)
	w.life.set("ending")
	w.shutdown()
	w.in.close(v, true)
	w.life.end(w.Name, v.err)
}

// loop starts workers until the stage is over.
func (w *Workers[T]) loop(ctx context.Context) verdict {
	for {
		t, ended, v := w.in.next(nil)
		w.in.part(ctx, ended)
		switch {
		case v != nil:
			return *v
		case t.call != nil:
			if v := w.in.judge(ctx, guard(func() error { return t.call(ctx) })); v != nil {
				return *v
			}
		case t.in != nil:
			w.in.mu.Lock()
			in, first, _ := w.in.core.lend()
			w.in.mu.Unlock()
			for i, event := range t.events {
				w.start(ctx, in, first+int64(i), event)
			}
		}
	}
}

// start runs a worker for an event.
func (w *Workers[T]) start(ctx context.Context, in *inflow[T], at int64, event T) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	w.lastID++
	one := &worker[T]{
		id: w.lastID, in: in, at: at, event: event, status: WorkerRunning,
		cancel: cancel, done: make(chan struct{}),
	}
	w.crew[one.id] = one
	w.mu.Unlock()
	go w.serve(ctx, one)
}

// serve handles one event to its end, with as many attempts as that takes.
func (w *Workers[T]) serve(ctx context.Context, one *worker[T]) {
	defer one.cancel()
	// Deferred, so that it is done also when the function ends the goroutine.
	err := error(ErrExited)
	defer func() { w.over(ctx, one, err) }()
	for {
		err = ErrExited
		err = guard(func() error { return w.run(ctx, one.event) })
		if err == nil || ctx.Err() != nil || !w.again(one) {
			return
		}
	}
}

// again reports whether a worker that has failed is started again.
func (w *Workers[T]) again(one *worker[T]) bool {
	w.mu.Lock()
	if w.Restart == Never || w.stopping || one.status == WorkerTerminating {
		w.mu.Unlock()
		return false
	}
	tolerated := w.restarts.allow(time.Now())
	w.mu.Unlock()
	if !tolerated {
		w.in.stop(fmt.Errorf("%w: more than %d in %v", ErrTooManyRestarts, w.restarts.tolerance.Restarts, w.restarts.tolerance.Within))
		return false
	}
	return true
}

// over books that a worker has ended for good. When the end of the stage or of the
// worker has interrupted it, it has not failed.
func (w *Workers[T]) over(ctx context.Context, one *worker[T], err error) {
	interrupted := ctx.Err() != nil && errors.Is(err, ctx.Err())
	failed := err != nil && !interrupted
	w.mu.Lock()
	_, here := w.crew[one.id]
	w.leave(one)
	if failed {
		w.failed++
	}
	// What the end of the stage interrupts is not processed: it goes back.
	back := interrupted && one.status != WorkerTerminating
	w.mu.Unlock()
	if failed {
		w.report(one.event, err)
	}
	if here && !back {
		w.in.finish(one.in, one.at)
	}
}

// abandon gives up on a worker that does not end.
func (w *Workers[T]) abandon(one *worker[T]) {
	w.mu.Lock()
	_, here := w.crew[one.id]
	w.leave(one)
	if here {
		w.abandoned++
	}
	w.mu.Unlock()
	if here {
		slog.Warn("worker abandoned: it goes on although it was told to end", "stage", w.Name, "worker", one.id)
		w.in.finish(one.in, one.at)
	}
}

// leave takes a worker off the list. The lock is held.
func (w *Workers[T]) leave(one *worker[T]) {
	if _, here := w.crew[one.id]; !here {
		return
	}
	delete(w.crew, one.id)
	close(one.done)
	if w.idle != nil && len(w.crew) == 0 {
		close(w.idle)
		w.idle = nil
	}
}

func (w *Workers[T]) report(event T, err error) {
	if w.OnFailure == nil {
		slog.Warn("worker failed: its event is given up", "stage", w.Name, "why", err)
		return
	}
	_ = guard(func() error { w.OnFailure(event, err); return nil })
}

// shutdown ends all workers, with one timeout for all of them. Those who take longer
// are abandoned.
func (w *Workers[T]) shutdown() {
	w.mu.Lock()
	w.stopping = true
	all := make([]*worker[T], 0, len(w.crew))
	for _, one := range w.crew {
		all = append(all, one)
	}
	idle := make(chan struct{})
	w.idle = idle
	if len(all) == 0 {
		close(idle)
		w.idle = nil
	}
	w.mu.Unlock()
	for _, one := range all {
		one.cancel()
	}
	timer := time.NewTimer(w.shutdownTimeout())
	defer timer.Stop()
	select {
	case <-idle:
		return
	case <-timer.C:
	}
	for _, one := range all {
		w.abandon(one)
	}
}

// finish books an event that was lent as processed, and asks or acknowledges.
func (l *inlet[T]) finish(in *inflow[T], at int64) {
	l.mu.Lock()
	ask := l.core.finish(in, at)
	up := in.up
	acked, done := in.progress()
	over := l.closed
	l.news.Signal()
	l.mu.Unlock()
	switch {
	case over:
	case ask > 0:
		_ = up.Ask(ask, acked, done...)
	default:
		_ = up.Ack(acked, done...)
	}
}
