package main

import (
	"sync"

	"github.com/sluicenet/sluice/pkg/stage"
)

// all is an outlet that nothing comes out of. It ends when the other subscriptions of
// its one consumer have ended, and with it ends the consumer: so a stage that reads
// several outlets goes on until the last of them is over. The others have the mode
// Transient: one that does not end well ends the stage by itself.
type all struct {
	subs []*subscription
	done chan struct{}
}

var (
	_ stage.Outlet[string]   = (*all)(nil)
	_ stage.Upstream[string] = (*watch)(nil)
)

// OutletName implements stage.Outlet.
func (a *all) OutletName() string { return "all of from" }

// Done implements stage.Outlet.
func (a *all) Done() <-chan struct{} { return a.done }

// Attach implements stage.Outlet.
func (a *all) Attach(_ stage.Terms, to stage.Receiver[string]) (stage.Upstream[string], error) {
	w := &watch{to: to, cancelled: make(chan struct{})}
	to.Opened()
	go w.wait(a.subs)
	return w, nil
}

// watch waits for subscriptions to end. Its goroutine ends with them, or when it is
// cancelled, which a stage that ends does.
type watch struct {
	to        stage.Receiver[string]
	once      sync.Once
	cancelled chan struct{}
}

func (w *watch) wait(subs []*subscription) {
	reason := stage.Completed
	for _, s := range subs {
		select {
		case <-s.Done():
		case <-w.cancelled:
			return
		}
		if s.Ending().Reason != stage.Completed {
			reason = stage.Shutdown
		}
	}
	w.end(reason)
}

func (w *watch) end(reason stage.Reason) {
	w.once.Do(func() {
		close(w.cancelled)
		w.to.Ended(stage.Ending{Reason: reason})
	})
}

// Cancel implements stage.Upstream.
func (w *watch) Cancel(stage.Cancel[string]) { w.end(stage.Cancelled) }

// Ask implements stage.Upstream.
func (w *watch) Ask(int64, int64) error { return nil }

// Ack implements stage.Upstream.
func (w *watch) Ack(int64) error { return nil }

// Revoke implements stage.Upstream.
func (w *watch) Revoke() int64 { return 0 }

// Discard implements stage.Upstream.
func (w *watch) Discard(int, string) {}
