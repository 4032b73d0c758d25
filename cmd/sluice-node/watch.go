package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
)

const (
	// waitingAfter is when a subscription that waits is worth a word.
	waitingAfter = 10 * time.Second

	msgStageEnded        = "stage ended"
	msgSubscriptionEnded = "subscription ended"
)

// watcher says how stages and subscriptions end, as they do, and closes what the
// stages used.
type watcher struct {
	n   *network
	log *slog.Logger
	say func(failure)
	// drain lets the other stages end.
	drain context.CancelCauseFunc
	over  chan struct{} // the run has ended
	all   sync.WaitGroup

	mu     sync.Mutex
	failed bool
	// left says that a drain has left events.
	left bool
	// ended are the stages whose end was noted.
	ended map[string]bool
}

func newWatcher(n *network, log *slog.Logger, say func(failure), drain context.CancelCauseFunc) *watcher {
	w := &watcher{n: n, log: log, say: say, drain: drain, over: make(chan struct{}), ended: map[string]bool{}}
	for _, p := range n.stages {
		w.ended[p.Name] = false
	}
	return w
}

func (w *watcher) begin() {
	for _, p := range w.n.stages {
		w.all.Go(func() {
			var subs sync.WaitGroup
			for _, s := range p.subs {
				subs.Go(func() { w.subscription(p, s) })
			}
			w.stage(p)
			subs.Wait()
		})
	}
}

// finish notes what is left to note when the run has ended with err.
func (w *watcher) finish(ctx context.Context, err error) {
	close(w.over)
	w.all.Wait()
	if ctx.Err() == nil {
		w.losses()
	} else {
		w.leftovers()
	}
	for _, one := range each(err) {
		var e *stage.Error
		switch {
		case ctx.Err() != nil && one == context.Cause(ctx): //nolint:errorlint // as Run returns it, alone
		case errors.As(one, &e) && w.ended[e.Stage]:
		default:
			w.report(one)
		}
	}
}

// losses says what was discarded in a run that nobody has told to stop, unless the file
// says so: the result is not complete then.
func (w *watcher) losses() {
	for _, p := range w.n.stages {
		for reason, n := range p.Runner.Inspect().Discarded {
			if !p.Accepts(reason) {
				w.report(&lossError{p.Name, reason, n})
			}
		}
	}
}

// leftovers notes whether a drain has left events that nobody took.
func (w *watcher) leftovers() {
	for _, p := range w.n.stages {
		if n := p.Runner.Inspect().Discarded[stage.DiscardEnded]; n > 0 {
			w.log.Warn("events were left when the stage had drained", "stage", p.Name, "count", n)
			w.left = true
		}
	}
}

// errLeft says that a drain has left events, and that the log says so already.
var errLeft = errors.New("events were left")

// result is the error of the run.
func (w *watcher) result() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failed:
		return errReported
	case w.left:
		return errLeft
	}
	return nil
}

// report says what went wrong, unless it follows from what another stage of this
// process says by itself.
func (w *watcher) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
	defer w.drain(errStageFailed)
	var sub *stage.SubscriptionError
	if errors.As(err, &sub) && sub.Reason == stage.Failed {
		if _, local := w.ended[sub.Outlet]; local {
			return
		}
	}
	w.say(failureOf(err))
}

var errStageFailed = errors.New("a stage has failed")

// wait returns when c is closed. It reports false when the run has ended before.
func (w *watcher) wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-w.over:
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// subscription says when a subscription waits for long, and how it ends.
func (w *watcher) subscription(p *part, s *subscription) {
	patience, cancel := context.WithTimeout(context.Background(), waitingAfter)
	defer cancel()
	log := w.log.With("outlet", s.outlet, "stage", p.Name)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		if s.Ready(patience) != nil && errors.Is(patience.Err(), context.DeadlineExceeded) {
			log.Warn("still waiting for the outlet: nobody offers it, or who does cannot be reached")
		}
	}()
	ended := w.wait(s.Done())
	cancel()
	<-stop
	if !ended {
		return
	}
	e := s.Ending()
	args := []any{"reason", e.Reason.String()}
	if i := s.Info(); i.Granted > 0 {
		args = append(args, "asked", i.Granted, "received", i.Received, "acked", i.Acked)
	}
	// Where it did not end well, the stage says why.
	log.Info(msgSubscriptionEnded, args...)
}

// stage says how a stage ends whose subscriptions have ended, and closes what it used.
func (w *watcher) stage(p *part) {
	if !w.wait(p.Runner.Ended()) {
		_ = p.Close() // it has never run
		return
	}
	info := p.Runner.Inspect()
	w.mu.Lock()
	w.ended[p.Name] = true
	w.mu.Unlock()
	if info.Err != nil {
		w.report(info.Err)
	}
	if err := p.Close(); err != nil && info.Err == nil {
		w.report(err)
	}
	args := []any{"stage", p.Name, "state", info.State}
	if p.Inlet != nil {
		args = append(args, "in", info.In)
	}
	if p.Outlet != nil {
		args = append(args, "out", info.Out)
	}
	for _, reason := range slices.Sorted(maps.Keys(info.Discarded)) {
		args = append(args, "discarded: "+reason, info.Discarded[reason])
	}
	if info.DeadLettered > 0 {
		args = append(args, "dead letters", info.DeadLettered)
	}
	w.log.Info(msgStageEnded, args...)
}
