package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// startAll runs a worker for each event of a batch. What a selector on this side does
// not keep is processed.
func (w *Workers[T]) startAll(ctx context.Context, t task[T]) {
	if t.in == nil {
		return
	}
	first := w.in.lend()
	for i, event := range t.events {
		at := first + int64(i)
		if t.in.keep == nil || t.in.keep(event) {
			w.start(ctx, t, at, event)
		} else {
			w.in.leaveOut(t.in, at)()
		}
	}
}

// start runs a worker for an event.
func (w *Workers[T]) start(ctx context.Context, t task[T], at int64, event T) {
	ctx, cancel := context.WithCancel(ctx)
	one := &worker[T]{
		in: t.in, at: at, event: event, run: t.run, status: WorkerRunning,
		ctx: &handlerContext{Context: ctx}, cancel: cancel, done: make(chan struct{}),
	}
	one.ctx.set(t.in.sub, t.in.from, at, one.run)
	w.mu.Lock()
	w.lastID++
	one.id = w.lastID
	w.crew[one.id] = one
	w.busy++
	w.mu.Unlock()
	go w.attempt(one)
}

// attempt lets a worker handle its event once.
func (w *Workers[T]) attempt(one *worker[T]) {
	err := error(ErrExited)
	// Deferred, so that it is done also when the function ends the goroutine.
	defer func() { w.attempted(one, err) }()
	err = guard(func() error { return w.run(one.ctx, one.event) })
}

// attempted draws the conclusions from an attempt: the event is processed, or tried
// again, or given up, or goes back when the stage closes.
func (w *Workers[T]) attempted(one *worker[T], err error) {
	switch again, back := w.judge(one, err); {
	case again:
		one.run.attempts++
		one.ctx.set(one.in.sub, one.in.from, one.at, one.run)
		go w.attempt(one)
	case back:
		w.settle(one, true)
	default:
		defer w.settle(one, false) // deferred: whatever happens to the report
		if one.failed {
			w.report(one, err)
		}
	}
}

// judge says what becomes of a worker whose function has returned err. What is neither
// tried again nor goes back is processed, or given up.
func (w *Workers[T]) judge(one *worker[T], err error) (again, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var panicked *PanicError
	crashed := err == ErrExited || errors.As(err, &panicked) //nolint:errorlint // the one that attempt sets
	switch {
	case w.crew[one.id] != one:
		return false, true // it was abandoned: nothing is left to decide
	case err == nil:
		return false, false
	case err == Stop: //nolint:errorlint // a wrapped Stop is an error like another
		w.in.enough()
		return false, false
	case one.status == WorkerTerminating:
	case one.ctx.Err() != nil && !crashed:
		return false, true // the end of the stage has interrupted it
	case w.Restart == OnFailure && (w.stopping || one.ctx.Err() != nil):
		return false, true
	case w.Restart == OnFailure && w.restarts.allow(time.Now()):
		return true, false
	case w.Restart == OnFailure:
		t := w.restarts.tolerance
		w.in.stop(fmt.Errorf("%w: more than %d in %v, the last one of a worker that failed: %w", ErrTooManyRestarts, t.Restarts, t.Within, err))
		return false, true
	}
	one.failed = true
	w.failed++
	return false, false
}

// abandon gives up on a worker that does not end, and on its event where it was told to
// end; where the stage ends, that goes back.
func (w *Workers[T]) abandon(one *worker[T]) {
	w.mu.Lock()
	terminated, failed := one.status == WorkerTerminating, one.failed
	w.mu.Unlock()
	if !w.settle(one, !terminated && !failed) {
		return
	}
	lost := terminated && !failed
	w.mu.Lock()
	w.abandoned++
	if lost {
		w.failed++
	}
	w.mu.Unlock()
	slog.Warn("worker abandoned: it goes on although it was told to end", "stage", w.Name, "worker", one.id)
	if lost {
		w.report(one, errGoesOn)
	}
}

// settle takes a worker off the list, and reports whether it was there. Its event counts
// as processed, unless it is to go back. All of that is done at once, so that the stage
// cannot close in between.
func (w *Workers[T]) settle(one *worker[T], back bool) bool {
	w.mu.Lock()
	if w.crew[one.id] != one {
		w.mu.Unlock()
		return false
	}
	delete(w.crew, one.id)
	if one.deadline != nil {
		one.deadline.Stop()
	}
	tell := func() {}
	if !back {
		tell = w.in.finish(one.in, one.at)
	}
	w.mu.Unlock()
	one.cancel()
	tell()
	close(one.done)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy--; w.busy == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
	return true
}

// report says that an event is given up.
func (w *Workers[T]) report(one *worker[T], err error) {
	w.mu.Lock()
	if one.status == WorkerTerminating {
		err = fmt.Errorf("%w: %w", ErrTerminated, err)
	}
	w.mu.Unlock()
	if w.OnFailure == nil {
		slog.Warn("worker failed: its event is given up", "stage", w.Name, "worker", one.id, "why", err)
		return
	}
	if err := guard(func() error { w.OnFailure(one.event, err); return nil }); err != nil {
		slog.Error("OnFailure panicked", "stage", w.Name, "why", err)
	}
}

// shutdown ends all workers, with one timeout for all of them. Those who take longer
// are abandoned.
func (w *Workers[T]) shutdown() {
	w.mu.Lock()
	w.stopping = true
	all := slices.Collect(maps.Values(w.crew))
	idle := make(chan struct{})
	if w.busy == 0 {
		close(idle)
	} else {
		w.idle = idle
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
