package stage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// far is an outlet that is some way off: asks and deliveries take their time, in order.
type far struct {
	stage.Outlet[int]
	away time.Duration
	size int64 // of an event, in bytes
	mu   sync.Mutex
	most int64 // the most that was open behind an ask
	ways []chan func()
}

func (f *far) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	there := &thither{far: f, way: make(chan func(), 10_000)}
	back := &hither{far: f, Receiver: r, way: make(chan func(), 10_000)}
	up, err := f.Outlet.Attach(terms, back)
	there.Upstream = up
	f.ways = append(f.ways, there.way, back.way)
	go travel(there.way)
	go travel(back.way)
	return there, err
}

// travel lets what is on a way arrive, in its order, each after its time.
func travel(way chan func()) {
	for arrive := range way {
		arrive()
	}
}

// close ends all ways.
func (f *far) close() {
	for _, way := range f.ways {
		close(way)
	}
}

// send puts something on its way.
func (f *far) send(way chan func(), arrive func()) {
	due := time.Now().Add(f.away)
	way <- func() {
		time.Sleep(time.Until(due))
		arrive()
	}
}

type thither struct {
	*far
	stage.Upstream[int]
	way     chan func()
	granted int64
}

func (t *thither) Ask(n, acked int64, _ ...stage.Range) error {
	t.granted += n
	t.mu.Lock()
	t.most = max(t.most, t.granted-acked)
	t.mu.Unlock()
	t.send(t.way, func() { _ = t.Upstream.Ask(n, acked) })
	return nil
}

func (t *thither) Ack(acked int64, _ ...stage.Range) error {
	t.send(t.way, func() { _ = t.Upstream.Ack(acked) })
	return nil
}

func (t *thither) Cancel(c stage.Cancel[int]) {
	t.send(t.way, func() { t.Upstream.Cancel(c) })
}

type hither struct {
	*far
	stage.Receiver[int]
	way chan func()
}

func (h *hither) Deliver(b stage.Batch[int]) {
	b.Events, b.Bytes = append([]int(nil), b.Events...), h.size*int64(len(b.Events))
	h.send(h.way, func() { h.Receiver.Deliver(b) })
}

func (h *hither) Ended(e stage.Ending) {
	h.send(h.way, func() { h.Receiver.Ended(e) })
}

// numbers is a source that always fills.
func numbers() *stage.Source[int] {
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) { return make([]int, demand), nil })
}

// A consumer far away grows until the way is full of what it wants, one that is slow
// shrinks, and both say why. No more is ever open than what it says.
// Rows AUT-02..06.
func TestAutoDemand(t *testing.T) {
	f := func(name string, size int64, bounds stage.Auto, each time.Duration, check func(*testing.T, stage.SubscriptionInfo, *far), opts ...stage.Option) {
		bubble(t, name, func(t *testing.T) {
			src := numbers()
			way := &far{Outlet: src, away: 25 * time.Millisecond, size: size}
			handled := 0
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				require.LessOrEqual(t, len(events), 250, "batches stay")
				handled += len(events)
				time.Sleep(time.Duration(len(events)) * each)
				return nil
			})
			sub := stage.Connect[int](way, sink, append(opts, stage.AutoDemand(bounds))...)
			wait, stop := start(t, src, sink)
			time.Sleep(10 * time.Second)
			i := sub.Info()
			require.Equal(t, int64(1000), i.Terms.MaxDemand, "it is where it began")
			require.Equal(t, sink.Inspect().Subscriptions[0].Why, i.Why)
			check(t, i, way)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
			way.close()
		})
	}
	f("the way is filled", 0, stage.Auto{}, 2*time.Microsecond, func(t *testing.T, i stage.SubscriptionInfo, way *far) {
		// 50 ms at 500,000 a second are 25,000.
		require.Greater(t, i.Demand, int64(25_000))
		require.LessOrEqual(t, way.most, int64(stage.DefaultAutoMax))
		require.Greater(t, i.Acked, int64(3_500_000))
		require.Contains(t, i.Why, "round trip 5")
	})
	f("the consumer is the brake", 0, stage.Auto{}, time.Millisecond, func(t *testing.T, i stage.SubscriptionInfo, way *far) {
		// 50 at a time are on their way.
		require.Less(t, i.Demand, int64(400))
		require.Equal(t, int64(1000), way.most)
		require.LessOrEqual(t, i.Open, i.Demand, "what was more is worked off")
		require.Greater(t, i.Acked, int64(9_500), "it is kept busy")
		require.Contains(t, i.Why, "the consumer is the brake")
	})
	f("bytes", 1<<10, stage.Auto{MaxBytes: 2 << 20}, time.Microsecond, func(t *testing.T, i stage.SubscriptionInfo, way *far) {
		require.InDelta(t, 2048, i.Demand, 100)
		require.LessOrEqual(t, way.most, int64(2150))
		require.Contains(t, i.Why, "the maximum in bytes")
	})
	f("large events", 1<<20, stage.Auto{}, time.Microsecond, func(t *testing.T, i stage.SubscriptionInfo, _ *far) {
		require.Equal(t, int64(8), i.Demand)
		require.LessOrEqual(t, i.Open, i.Demand)
	})
}

// Without it there is nothing to say.
// Row AUT-01.
func TestDemandThatStays(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		sink, _ := keeper()
		sub := stage.Connect(src, sink)
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Zero(t, sub.Info().Demand)
		require.Empty(t, sub.Info().Why)
	})
}

// Row AUT-07.
func TestAutoDemandIsChecked(t *testing.T) {
	sink := stage.NewSink(func(context.Context, []int) error { return nil })
	f := func(want error, words string, opts ...stage.Option) {
		t.Helper()
		_, err := stage.Subscribe(t.Context(), stage.Outlet[int](&byHand{}), sink, opts...)
		require.ErrorIs(t, err, want)
		require.True(t, strings.Contains(err.Error(), words), err)
	}
	auto := func(min, max int, bytes int64) stage.Option {
		return stage.AutoDemand(stage.Auto{Min: min, Max: max, MaxBytes: bytes})
	}
	f(stage.ErrInvalidDemand, "1 <= Min", auto(-1, 0, 0))
	f(stage.ErrInvalidDemand, "Min <= Max", auto(200, 100, 0))
	f(stage.ErrInvalidDemand, "Max < 1<<31", auto(0, 1<<31, 0))
	f(stage.ErrInvalidDemand, "1 <= MaxBytes", auto(0, 0, -1))
	f(stage.ErrInvalidDemand, "set MaxDemand within", auto(20, 0, 0), stage.MaxDemand(10))
	f(stage.ErrInvalidDemand, "set MaxDemand within", auto(0, 500, 0), stage.MaxDemand(1000))
	f(stage.ErrInvalidDemand, "max 500, min 600", auto(0, 500, 0), stage.MinDemand(600))
	f(stage.ErrInvalidDemand, "Manual", auto(0, 0, 0), stage.Manual())
	f(stage.ErrInvalidDemand, "set MaxDemand within", auto(0, 0, 0), stage.Unbounded())

	for _, one := range []*stage.Workers[int]{
		stage.NewPool(3, func(context.Context, int) error { return nil }),
		stage.NewWorkers(func(context.Context, int) error { return nil }),
	} {
		_, err := stage.Subscribe(t.Context(), stage.Outlet[int](&byHand{}), one, auto(0, 0, 0))
		require.ErrorIs(t, err, stage.ErrUnsupportedDemandMode)
	}
}

// Where it begins: with the default or what is set, within the bounds.
// Row AUT-02.
func TestAutoDemandBegins(t *testing.T) {
	f := func(first int64, opts ...stage.Option) {
		t.Helper()
		bubble(t, "", func(t *testing.T) {
			src := &byHand{}
			sink := stage.NewSink(func(context.Context, []int) error { return nil })
			stage.Connect[int](src, sink, opts...)
			wait, stop := start(t, sink)
			time.Sleep(time.Second)
			require.Equal(t, []int64{first}, src.asks.get())
			src.end(stage.Failed, errors.New("enough"))
			require.Error(t, wait())
			stop()
		})
	}
	f(1000, stage.AutoDemand(stage.Auto{}))
	f(500, stage.AutoDemand(stage.Auto{Max: 500}))
	f(50, stage.AutoDemand(stage.Auto{Max: 50}))
	f(40_000, stage.AutoDemand(stage.Auto{Min: 40_000}))
	f(10, stage.AutoDemand(stage.Auto{}), stage.MaxDemand(10))
	f(50_000, stage.AutoDemand(stage.Auto{}), stage.MaxDemand(50_000))
	f(300, stage.AutoDemand(stage.Auto{}), stage.MaxDemand(300), stage.MinDemand(0))
}
