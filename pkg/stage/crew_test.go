package stage_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/stage"
)

// crew is the work of workers whose test says when and how each ends.
type crew struct {
	begun  log[int]
	failed log[error]
	mu     sync.Mutex
	ends   map[int]chan func() error
	// patience is how long those go on that ignore their ctx: until the end of the test.
	patience context.Context
}

func newCrew(t *testing.T) *crew {
	patience, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &crew{ends: map[int]chan func() error{}, patience: patience}
}

func (c *crew) end(event int) chan func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends[event] == nil {
		c.ends[event] = make(chan func() error)
	}
	return c.ends[event]
}

func (c *crew) work(ctx context.Context, event int) error {
	c.begun.add(event)
	select {
	case how := <-c.end(event):
		return how()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// began are the events whose workers have begun, sorted: workers begin in any order.
func (c *crew) began() []int { return slices.Sorted(slices.Values(c.begun.get())) }

// stubborn is work that ignores its ctx.
func (c *crew) stubborn(_ context.Context, event int) error {
	return c.work(c.patience, event)
}

func (c *crew) onFailure(event int, err error) { c.failed.add(fmt.Errorf("%d: %w", event, err)) }

// ends lets the workers of events end by what how does, one after the other.
func (c *crew) let(how func() error, events ...int) {
	for _, e := range events {
		c.end(e) <- how
		synctest.Wait()
	}
}

func well() error { return nil }
func oops() error { return errOops }
func exit() error { runtime.Goexit(); return nil }
func boom() error { panic("boom") }

// tell is an outlet that notes what it is told.
type tell struct {
	stage.Outlet[int]
	asks log[int64]
	acks log[string]
}

type heard struct {
	stage.Upstream[int]
	*tell
}

func (s *tell) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	up, err := s.Outlet.Attach(terms, r)
	return heard{up, s}, err
}

func (s heard) Ask(n, acked int64, done ...stage.Range) error {
	s.asks.add(n)
	s.acks.add(fmt.Sprint(acked, done))
	return s.Upstream.Ask(n, acked, done...)
}

func (s heard) Ack(acked int64, done ...stage.Range) error {
	s.acks.add(fmt.Sprint(acked, done))
	return s.Upstream.Ack(acked, done...)
}

func (s heard) Cancel(c stage.Cancel[int]) {
	if !c.Drain {
		s.acks.add(fmt.Sprint("back ", c.Rest))
	}
	s.Upstream.Cancel(c)
}

// crewed runs workers of w on a counter, and stops them in the end.
func crewed(t *testing.T, w *stage.Workers[int], opts ...stage.Option) (src *tell, sub *stage.Subscription) {
	t.Helper()
	source := counter(1 << 30)
	src = &tell{Outlet: source}
	sub = stage.Connect[int](src, w, opts...)
	srcWait, stopSrc := start(t, source)
	wait, stop := start(t, w)
	synctest.Wait()
	t.Cleanup(func() {
		stop()
		stopSrc()
		_ = wait()
		_ = srcWait()
	})
	return src, sub
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
