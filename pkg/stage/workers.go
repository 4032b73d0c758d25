package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Workers is a sink that runs each event in a worker of its own, several at once.
//
// The max demand of a subscription is the number of its slots; each subscription has its
// own. A worker takes one, from when its event was asked for until the worker has ended
// for good. When the free slots are as many as max minus min demand, they are asked for,
// so min demand 0 refills them all at once and max-1 each by itself. Events count as
// processed when their workers have ended, in whatever order they do.
//
// A worker that fails is reported and its event given up, or it is started again, as
// Restart says. A subscription that ends waits for the workers that have its events,
// and then does what its cancel mode says; one that does not end well ends the stage at
// once, unless it is [Temporary]. The stage does its own asking: a manual subscription
// is refused with ErrUnsupportedDemandMode, and so is Subscription.Ask.
//
// When the stage is stopped, it takes nothing new, and its workers have the drain
// timeout to finish. When it fails, or that timeout is over, they are told to end by
// their ctx and have the shutdown timeout, all together. The events of those that end
// without having finished go back to the producer, marked as tried once more, however
// often they were tried here.
//
// The fields are settings: set them before the stage is connected or run. It runs once.
// The methods may be called from any goroutine.
type Workers[T any] struct {
	// Name names the stage; default workers-n, or pool-n.
	Name string
	// Restart says what becomes of a worker that fails; default Never.
	Restart Restart
	// Tolerance is how many restarts, of all workers together, the stage bears before
	// it fails with ErrTooManyRestarts; default 3 in 5 s.
	Tolerance Tolerance
	// ShutdownTimeout is how long workers may take to end when they are told to;
	// default 5 s, less than 0 stands for no time. Those who take longer are abandoned:
	// they are counted in Info and logged, and their slots are free. Nobody can end
	// them: they go on, and outlive the stage, until they return.
	ShutdownTimeout time.Duration
	// OnFailure is told of each event that is given up: its worker failed and was not
	// started again, or did not finish because of Terminate; then err is ErrTerminated.
	// By default a warning is logged. It runs on the worker's goroutine, in its slot.
	OnFailure func(event T, err error)
	// DrainTimeout bounds how long the workers may take to finish when the stage is
	// stopped; default 30 s.
	DrainTimeout time.Duration

	run   func(ctx context.Context, event T) error
	slots int // of a pool: they do not depend on the subscription
	in    *inlet[T]
	life  life

	// The lock is taken before the inlet's.
	mu        sync.Mutex
	crew      map[int64]*worker[T]
	busy      int // goroutines of workers that are not abandoned
	lastID    int64
	restarts  restarts
	abandoned int64
	failed    int64
	stopping  bool
	idle      chan struct{} // closed when nobody of a stopping stage is busy
}

// Restart says what becomes of a worker that fails: its function returns an error,
// panics, or ends its goroutine. One that ends because its ctx has ended has not failed.
type Restart int

const (
	// Never: its event is given up.
	Never Restart = iota
	// OnFailure: it is started again with the same event, in the same slot, at once.
	OnFailure
)

// worker handles one event.
type worker[T any] struct {
	id       int64
	in       *inflow[T]
	at       int64 // the position of its event
	event    T
	run      run // how the event was delivered, and how often it was tried
	ctx      *handlerContext
	cancel   context.CancelFunc
	status   WorkerStatus
	failed   bool        // and its event is given up
	deadline *time.Timer // of one that is told to end
	done     chan struct{}
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
// its own. ctx ends when the worker is told to end; [Delivery] says where its event
// comes from and how often it was tried. An error or a panic of work fails that worker;
// [Stop] ends the stage well.
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
	if s.terms.Manual || s.auto != nil || w.slots > 0 && (s.maxSet || s.minSet) {
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

// Workers lists those that have a slot, in the order of their IDs.
func (w *Workers[T]) Workers() []WorkerInfo[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]WorkerInfo[T], 0, len(w.crew))
	for _, one := range w.crew {
		all = append(all, WorkerInfo[T]{one.id, one.event, one.status})
	}
	slices.SortFunc(all, func(a, b WorkerInfo[T]) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Count is how many workers have a slot.
func (w *Workers[T]) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.crew)
}

// Terminate ends a worker: its ctx ends, and when it has ended its slot is free. It is
// not started again, and an event that it has not finished is given up. One that ignores
// its ctx past the shutdown timeout is abandoned, whoever waits for that. Terminate
// returns when the slot is free, with ErrNoWorker when there is no such worker or it has
// ended, or with the cause of ctx. It may not be called by the worker itself.
func (w *Workers[T]) Terminate(ctx context.Context, id int64) error {
	w.mu.Lock()
	one := w.crew[id]
	if one == nil {
		w.mu.Unlock()
		return fmt.Errorf("%w: %d", ErrNoWorker, id)
	}
	if one.status != WorkerTerminating {
		one.status = WorkerTerminating
		one.deadline = time.AfterFunc(w.shutdownTimeout(), func() { w.abandon(one) })
	}
	w.mu.Unlock()
	one.cancel()
	select {
	case <-one.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *Workers[T]) shutdownTimeout() time.Duration {
	if w.ShutdownTimeout == 0 {
		return 5 * time.Second
	}
	return max(w.ShutdownTimeout, 0)
}

func (w *Workers[T]) inlet() *inlet[T] { return w.in }

func (w *Workers[T]) ask() { w.in.ask() }

func (w *Workers[T]) isSink() bool { return true }

func (w *Workers[T]) result() error { return w.life.result() }

func (w *Workers[T]) open() error {
	if w.in == nil {
		return ErrNotMade
	}
	if err := w.life.begin(); err != nil {
		return err
	}
	w.restarts = newRestarts(w.Tolerance)
	if err := w.in.open(); err != nil {
		w.in.close(verdict{Failed, err}, 0)
		w.life.end(w.Name, err)
		return err
	}
	return nil
}

func (w *Workers[T]) work(ctx context.Context, ours func(any) bool) {
	hard, release := extend(ctx, orDefault(w.DrainTimeout))
	defer release()
	defer w.in.expectAll()()
	defer when(ctx, func() { w.in.drain(ours) })()
	defer when(hard, func() { w.in.stop(context.Cause(hard)) })()
	v := verdict{Failed, ErrExited} // stands when a selector ends the goroutine
	defer func() {
		w.life.set("ending")
		w.shutdown()
		w.in.close(v, inHand)
		w.life.end(w.Name, v.err)
	}()
	v = w.loop(hard)
}

// loop starts workers until the stage is over.
func (w *Workers[T]) loop(ctx context.Context) verdict {
	for {
		t, ended, v := w.in.next(nil)
		w.in.part(ctx, ended)
		if v != nil {
			return *v
		}
		if err := guard(func() error { w.startAll(ctx, t); return nil }); err != nil {
			return verdict{Failed, err}
		}
	}
}

var errGoesOn = errors.New("it goes on")
