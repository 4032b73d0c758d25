package stage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultDrainTimeout is how long a stage that is stopped may take to hand over
// what it holds.
const DefaultDrainTimeout = 30 * time.Second

// life is what the stages have in common: they have a name, run once and end once.
type life struct {
	mu    sync.Mutex
	state string // "" stands for ready
	err   error
	over  chan struct{} // closed when it has ended; made when somebody asks
}

func (l *life) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != "" {
		return ErrAlreadyRun
	}
	l.state = "running"
	return nil
}

// begun reports whether it runs, or has run.
func (l *life) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != ""
}

func (l *life) set(state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
}

// end books how the stage ended. The first error stands.
func (l *life) end(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = "ended"
	if err != nil && l.err == nil {
		l.state, l.err = "failed", &Error{Stage: name, Err: err}
	}
	if l.over == nil {
		l.over = make(chan struct{})
	}
	if !isClosed(l.over) {
		close(l.over)
	}
}

// ended returns a channel that is closed when the stage has ended.
func (l *life) ended() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		l.over = make(chan struct{})
	}
	return l.over
}

func (l *life) result() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *life) inspect(i *Info) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i.State, i.Err = l.state, l.err
	if i.State == "" {
		i.State = "ready"
	}
}

// call is something that a stage's goroutine is to do between two batches: a message
// or a hook. What it returns is treated like what a handler returns.
type call func(ctx context.Context) error

// maxCalls is how many calls may wait. Whoever sends more than a stage can take is
// told so.
const maxCalls = 10_000

var counters sync.Map // kind -> *atomic.Int64

// defaultName is kind-n.
func defaultName(kind string) string {
	n, _ := counters.LoadOrStore(kind, new(atomic.Int64))
	return fmt.Sprintf("%s-%d", kind, n.(*atomic.Int64).Add(1))
}

// when calls f when ctx ends, in a goroutine of its own. release gives that up, or waits
// for f to return where it has been called: nothing goes on behind the caller.
func when(ctx context.Context, f func()) (release func()) {
	returned := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(returned)
		f()
	})
	return func() {
		if !stop() {
			<-returned
		}
	}
}

// guard calls a handler and returns its panic as an error.
func guard(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanicError(v)
		}
	}()
	return call()
}

// extend returns a context that ends, with ErrDrainTimeout, when ctx has been done
// for as long as d. release gives back what that takes.
func extend(ctx context.Context, d time.Duration) (hard context.Context, release func()) {
	hard, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(ErrDrainTimeout) })
		context.AfterFunc(hard, func() { timer.Stop() })
	})
	return hard, func() {
		stop()
		cancel(nil)
	}
}

// orDefault returns d, or the default drain timeout where d is 0.
func orDefault(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultDrainTimeout
	}
	return d
}
