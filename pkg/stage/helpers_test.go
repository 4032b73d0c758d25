package stage_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// Tests of flows run in bubbles. A bubble fails when something waits for ever, and
// when a goroutine is left behind; synctest.Wait waits until nothing moves.

var errOops = errors.New("oops")

// counter is a source of the numbers below limit, which makes as many as are asked
// for.
func counter(limit int) *stage.Source[int] {
	next := 0
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		events := upTo(next, min(next+demand, limit))
		next += len(events)
		if next == limit {
			return events, io.EOF
		}
		return events, nil
	})
}

// upTo is the numbers from first to last, which is not included.
func upTo(first, last int) []int {
	events := make([]int, 0, last-first)
	for i := first; i < last; i++ {
		events = append(events, i)
	}
	return events
}

// idle is a source that never has anything.
func idle() *stage.Source[int] {
	return stage.NewSource(func(context.Context, int) ([]int, error) { return nil, nil })
}

// log keeps what several goroutines have to say.
type log[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *log[T]) add(v ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v...)
}

func (l *log[T]) get() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// keeper is a sink that keeps what it is given.
func keeper() (*stage.Sink[int], *log[int]) {
	var got log[int]
	return stage.NewSink(func(_ context.Context, events []int) error {
		got.add(events...)
		return nil
	}), &got
}

// start runs stages; wait returns what Run does, and stop stops them.
func start(t *testing.T, stages ...stage.Runner) (wait func() error, stop context.CancelFunc) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stage.Run(ctx, stages...) }()
	return func() error { return <-done }, stop
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// spy is an outlet that notes what it is asked for.
type spy struct {
	stage.Outlet[int]
	asks log[int64]
}

type spied struct {
	stage.Upstream[int]
	asks *log[int64]
}

func (s *spy) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	up, err := s.Outlet.Attach(terms, r)
	return spied{up, &s.asks}, err
}

func (s spied) Ask(n, acked int64, _ ...stage.Range) error {
	s.asks.add(n)
	return s.Upstream.Ask(n, acked)
}

// byHand is an outlet whose producer is the test.
type byHand struct {
	attached log[stage.Receiver[int]]
	asks     log[int64]
	acked    log[int64]
	cancels  log[stage.Cancel[int]]
	late     bool // it accepts nobody by itself
}

func (h *byHand) OutletName() string    { return "by hand" }
func (h *byHand) Done() <-chan struct{} { return nil }

func (h *byHand) Attach(_ stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	h.attached.add(r)
	if !h.late {
		r.Opened()
	}
	return h, nil
}

func (h *byHand) Ask(n, acked int64, _ ...stage.Range) error {
	h.asks.add(n)
	h.acked.add(acked)
	return nil
}
func (h *byHand) Ack(acked int64, _ ...stage.Range) error { h.acked.add(acked); return nil }
func (h *byHand) Cancel(c stage.Cancel[int])              { h.cancels.add(c) }
func (h *byHand) Revoke() int64                           { return 0 }
func (h *byHand) Discard(int, string)                     {}
func (h *byHand) deliver(events ...int)                   { h.receiver().Deliver(stage.Batch[int]{Events: events}) }
func (h *byHand) end(r stage.Reason, err error) {
	h.receiver().Ended(stage.Ending{Reason: r, Err: err})
}

// receiver is the last one that has attached, or nil.
func (h *byHand) receiver() stage.Receiver[int] {
	all := h.attached.get()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// reader is a consumer of the test's own: it asks and acknowledges by hand.
type reader struct {
	stage.Upstream[int]
	batches log[stage.Batch[int]]
	endings log[stage.Ending]
}

func (r *reader) Opened()                    {}
func (r *reader) Ended(e stage.Ending)       { r.endings.add(e) }
func (r *reader) Deliver(b stage.Batch[int]) { b.Events = slices.Clone(b.Events); r.batches.add(b) }

func (r *reader) events() (all []int) {
	for _, b := range r.batches.get() {
		all = append(all, b.Events...)
	}
	return all
}

func read(t *testing.T, o stage.Outlet[int]) *reader {
	t.Helper()
	r := &reader{}
	up, err := o.Attach(stage.Terms{Stage: "reader", Partition: dispatch.NoPartition}, r)
	require.NoError(t, err)
	r.Upstream = up
	return r
}

// words sends the words of a sentence on a channel that is closed behind them.
func words(sentence string) <-chan string {
	all := strings.Fields(sentence)
	c := make(chan string, len(all))
	for _, w := range all {
		c <- w
	}
	close(c)
	return c
}
