package stagetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// patience is how long anything that is to happen may take.
const patience = 20 * time.Second

var errOops = errors.New("oops")

// bench is where one scene is played: the way, and a record of what has happened.
//
// Everything that is noted is noted under one lock, and whoever waits for it looks
// after each note. Nothing sleeps.
type bench struct {
	*testing.T
	way  Way
	mu   sync.Mutex
	news *sync.Cond
	over bool // stages are stopped: no handler waits any more
}

func newBench(t *testing.T, way Way) *bench {
	b := &bench{T: t, way: way}
	b.news = sync.NewCond(&b.mu)
	return b
}

// note does something under the lock, and lets those look who wait.
func (b *bench) note(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.news.Broadcast()
}

// saw waits for ok, which is called under the lock, and reports whether it came true.
// Unlike await it may be called on any goroutine.
func (b *bench) saw(ok func() bool) bool {
	late := false
	defer time.AfterFunc(patience, func() { b.note(func() { late = true }) }).Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !ok() {
		if late {
			return false
		}
		b.news.Wait()
	}
	return true
}

func (b *bench) await(what string, ok func() bool) {
	b.Helper()
	require.True(b, b.saw(ok), "it does not happen: %s", what)
}

// eventually waits for what nobody notes.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	require.Eventually(b, ok, patience, time.Millisecond, what)
}

// program is a stage that runs, in a Run of its own as if it were elsewhere.
type program struct {
	b    *bench
	stop context.CancelFunc
	over bool
	err  error
}

func (b *bench) run(s stage.Runner) *program {
	ctx, stop := context.WithCancel(context.Background())
	p := &program{b: b, stop: stop}
	go func() {
		err := stage.Run(ctx, s)
		b.note(func() { p.over, p.err = true, err })
	}()
	b.Cleanup(func() {
		b.note(func() { b.over = true })
		stop()
		if !b.saw(func() bool { return p.over }) {
			b.Errorf("a stage does not end")
		}
	})
	return p
}

func (p *program) ended() (over bool) {
	p.b.note(func() { over = p.over })
	return over
}

// wait waits for the stage to end, and returns how it did.
func (p *program) wait() error {
	p.b.Helper()
	p.b.await("the stage ends", func() bool { return p.over })
	return p.err
}

// source is a source, the outlet to subscribe to, and a record of its handler.
type source struct {
	*stage.Source[int]
	b         *bench
	out       stage.Outlet[int]
	demands   []int // that its handler was called with
	made      int
	discarded map[string]int
	reports   int
	changes   []stage.SubscriberChange
}

// source lets handle produce, behind the way. Without handle, events are pushed. set
// changes its settings.
func (b *bench) source(handle func(demand int) ([]int, error), set ...func(*stage.Source[int])) *source {
	s := &source{b: b, discarded: map[string]int{}}
	produce := func(_ context.Context, demand int) (events []int, err error) {
		b.note(func() {
			s.demands = append(s.demands, demand)
			events, err = handle(demand)
			s.made += len(events)
		})
		return events, err
	}
	if handle == nil {
		produce = nil
	}
	s.Source = stage.NewSource(produce)
	s.DrainTimeout = 2 * time.Second
	s.OnDiscard = func(reason string, count int) {
		b.note(func() { s.discarded[reason] += count; s.reports++ })
	}
	s.OnSubscribers = func(c stage.SubscriberChange) { b.note(func() { s.changes = append(s.changes, c) }) }
	for _, f := range set {
		f(s.Source)
	}
	s.out = b.way(b.T, s.Source)
	return s
}

// counter is a source of the numbers below limit, that makes as many as are asked for.
func (b *bench) counter(limit int, set ...func(*stage.Source[int])) *source {
	next := 0
	return b.source(func(demand int) ([]int, error) {
		events := upTo(next, min(next+demand, limit))
		next += len(events)
		if next == limit {
			return events, io.EOF
		}
		return events, nil
	}, set...)
}

const endless = 1 << 40

// upTo is the numbers from first to last, which is not included.
func upTo(first, last int) []int {
	events := make([]int, 0, max(last-first, 0))
	for i := first; i < last; i++ {
		events = append(events, i)
	}
	return events
}

// view returns what the source knows of a subscriber.
func (s *source) view(who string) (i stage.SubscriptionInfo) {
	for _, sub := range s.Inspect().Subscribers {
		if sub.Terms.Stage == who {
			i = sub
		}
	}
	return i
}

// granted waits until who has asked for n in all, as the source sees it.
func (s *source) granted(who string, n int64) {
	s.b.Helper()
	s.b.eventually("it is asked", func() bool { return s.view(who).Granted == n })
}

// asked are the demands that the handler was called with.
func (s *source) asked() (demands []int) {
	s.b.note(func() { demands = slices.Clone(s.demands) })
	return demands
}

// sink is a sink and a record of its handler.
type sink struct {
	*stage.Sink[int]
	b       *bench
	batches [][]int
	infos   []stage.DeliveryInfo
	count   int
}

// sink notes each batch, and lets then say what the handler returns.
func (b *bench) sink(name string, then func(batch []int) error) *sink {
	s := &sink{b: b}
	s.Sink = stage.NewSink(func(ctx context.Context, batch []int) error {
		info, _ := stage.Delivery(ctx)
		b.note(func() {
			s.batches = append(s.batches, slices.Clone(batch))
			s.infos = append(s.infos, info)
			s.count += len(batch)
		})
		if then == nil {
			return nil
		}
		return then(batch)
	})
	s.Name, s.DrainTimeout = name, 2*time.Second
	return s
}

// events are what the handler has had, in order.
func (s *sink) events() (all []int) {
	s.b.note(func() { all = slices.Concat(s.batches...) })
	return all
}

// inOrder checks that the handler has had the numbers from 0 on, each once.
func (s *sink) inOrder() {
	s.b.Helper()
	got := s.events()
	require.Equal(s.b, upTo(0, len(got)), got)
}

func (s *sink) all() (batches [][]int) {
	s.b.note(func() { batches = slices.Clone(s.batches) })
	return batches
}

// has waits until the handler was called with n events in all.
func (s *sink) has(n int) {
	s.b.Helper()
	s.b.await("the events arrive", func() bool { return s.count >= n })
}

// gate blocks handlers until it is opened.
type gate struct {
	b    *bench
	open bool
}

func (b *bench) gate() *gate {
	return &gate{b: b}
}

func (g *gate) release() { g.b.note(func() { g.open = true }) }

func (g *gate) pass() error {
	if !g.b.saw(func() bool { return g.open || g.b.over }) {
		return errors.New("the gate was not opened")
	}
	return nil
}

// demand is the options of a window.
func demand(max, min int) []stage.Option {
	return []stage.Option{stage.MaxDemand(max), stage.MinDemand(min)}
}

// subscribe subscribes a running sink.
func (b *bench) subscribe(out stage.Outlet[int], to stage.Inlet[int], opts ...stage.Option) *stage.Subscription {
	b.Helper()
	sub, err := stage.Subscribe(b.Context(), out, to, opts...)
	require.NoError(b, err)
	return sub
}

// done waits until a subscription is over.
func (b *bench) done(sub *stage.Subscription) stage.Ending {
	b.Helper()
	select {
	case <-sub.Done():
	case <-time.After(patience):
		require.Fail(b, "the subscription does not end")
	}
	return sub.Ending()
}
