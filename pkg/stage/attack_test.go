package stage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// EDG-12: one source, two gates, one sink: everything comes through both ways.
func TestDiamond(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(5000)
		src.Dispatcher = dispatch.Broadcast[int]()
		left, right := stage.NewGate(stage.Map(double)), stage.NewGate(stage.Map(func(i int) int { return 2*i + 1 }))
		right.Name = "right"
		var got log[int]
		sink := stage.NewSink(func(_ context.Context, events []int) error { got.add(events...); return nil })
		stage.Connect(src, left, stage.MaxDemand(7))
		stage.Connect(src, right, stage.MaxDemand(100))
		stage.Connect(left, sink, stage.MaxDemand(3), stage.Transient)
		stage.Connect(right, sink, stage.MaxDemand(50), stage.Transient)
		wait, stop := start(t, src, left, right, sink)
		synctest.Wait()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.ElementsMatch(t, upTo(0, 10_000), got.get())
	})
}

// A long chain with the smallest demand.
func TestLongChain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(300)
		stages := []stage.Runner{src}
		var last stage.Outlet[int] = src
		for range 50 {
			g := stage.NewGate(stage.Map(func(i int) int { return i + 1 }))
			stage.Connect(last, g, stage.MaxDemand(1))
			stages, last = append(stages, g), g
		}
		sink, got := keeper()
		stage.Connect(last, sink, stage.MaxDemand(1))
		require.NoError(t, stage.Run(t.Context(), append(stages, sink)...))
		require.Equal(t, upTo(50, 350), got.get())
	})
}

// EDG-06, EDG-09: a ring of gates that feed each other goes round, is looked at, and is stopped.
func TestRingOfGates(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var turns atomic.Int64
		turn := func(_ context.Context, events []int) ([]int, error) {
			turns.Add(int64(len(events)))
			time.Sleep(time.Millisecond)
			return events, nil
		}
		seed := counter(3)
		a, b := stage.NewGate(turn), stage.NewGate(turn)
		stage.Connect(seed, a, stage.MaxDemand(10), stage.Transient)
		stage.Connect(b, a, stage.MaxDemand(10))
		stage.Connect(a, b, stage.MaxDemand(10))
		a.DrainTimeout, b.DrainTimeout = time.Second, time.Second
		wait, stop := start(t, seed, a, b)
		for range 100 {
			time.Sleep(time.Millisecond)
			for _, s := range []stage.Inspector{seed, a, b} {
				require.NotEmpty(t, s.Inspect().Name)
			}
		}
		require.Greater(t, turns.Load(), int64(50))
		stop()
		require.ErrorIs(t, wait(), stage.ErrDrainTimeout, "a ring does not run dry by itself")
	})
}

// Everybody asks, cancels, subscribes, fails and looks, all the time, while it flows.
// Every event is handled, or counted as given up.
func TestStorm(t *testing.T) {
	for name, d := range map[string]func() dispatch.Dispatcher[int]{
		"demand":    dispatch.Demand[int],
		"partition": func() dispatch.Dispatcher[int] { return dispatch.Partition(3, func(i int) int { return i }) },
	} {
		bubble(t, name, func(t *testing.T) {
			const total = 5000
			src := counter(total)
			src.Dispatcher, src.Buffer = d(), stage.Unlimited()
			g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) { return events, nil })
			g.Dispatcher = d()
			var handled sync.Map
			var count atomic.Int64
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			join := func(o stage.Outlet[int], to stage.Inlet[int], part int) (*stage.Subscription, error) {
				opts := []stage.Option{stage.MaxDemand(1 + rand.IntN(50)), stage.Temporary}
				if name == "partition" {
					opts = append(opts, stage.InPartition(part))
				}
				return stage.Subscribe(ctx, o, to, opts...)
			}
			wg.Go(func() { _ = stage.Run(ctx, src, g) })
			for part := range 3 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if sub, err := join(src, g, part); err == nil {
							_ = sub.Ask(1 + rand.IntN(9))
							time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
							sub.Cancel()
							<-sub.Done()
						} else {
							time.Sleep(time.Millisecond)
						}
					}
				})
				wg.Go(func() {
					for ctx.Err() == nil {
						left := 1 + rand.IntN(40)
						sink := stage.NewSink(func(_ context.Context, events []int) error {
							if left--; left == 0 {
								return errOops
							}
							for _, e := range events {
								if _, again := handled.LoadOrStore(e, true); !again {
									count.Add(1)
								}
							}
							time.Sleep(100 * time.Microsecond)
							return nil
						})
						sctx, stop := context.WithCancel(ctx)
						wg.Go(func() { time.Sleep(50 * time.Millisecond); stop() })
						wg.Go(func() { _ = sink.Run(sctx) })
						if sub, err := join(g, sink, part); err == nil {
							_ = sub.Ask(1 + rand.IntN(20))
							src.Inspect()
							g.Inspect()
							sink.Inspect()
							<-sub.Done()
						} else if !errors.Is(err, dispatch.ErrPartitionTaken) {
							time.Sleep(time.Millisecond)
						}
						<-sctx.Done()
					}
				})
			}
			for range 60_000 {
				time.Sleep(10 * time.Millisecond)
				if count.Load() == total {
					break
				}
			}
			require.Equal(t, int64(total), count.Load())
			require.Empty(t, g.Inspect().Discarded)
			cancel()
			wg.Wait()
		})
	}
}

// Two in the same process that subscribe the same pair at once: one of them wins.
func TestSubscribeRace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := idle()
		sink, _ := keeper()
		wait, stop := start(t, src, sink)
		for range 50 {
			var won, lost atomic.Int64
			var last atomic.Pointer[stage.Subscription]
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					sub, err := stage.Subscribe(t.Context(), src, sink, stage.Temporary)
					if errors.Is(err, stage.ErrAlreadySubscribed) {
						lost.Add(1)
					} else if err == nil {
						won.Add(1)
						last.Store(sub)
					}
				})
			}
			wg.Wait()
			require.Equal(t, []int64{1, 7}, []int64{won.Load(), lost.Load()})
			last.Load().Cancel()
			<-last.Load().Done()
		}
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Stages end, in whatever way, while others subscribe to them. Nobody hangs.
func TestSubscribeAndEndRace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		for i := range 300 {
			src := counter(50)
			sink := stage.NewSink(func(context.Context, []int) error {
				return []error{nil, stage.Stop, errOops}[i%3]
			})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = stage.Run(ctx, src) })
			wg.Go(func() { _ = sink.Run(ctx) })
			wg.Go(func() {
				if sub, err := stage.Subscribe(ctx, src, sink); err == nil {
					wg.Go(func() { sub.Cancel() })
					wg.Go(func() { _ = sub.Ask(3) })
					<-sub.Done()
				}
			})
			if i%2 == 0 {
				wg.Go(cancel)
			}
			synctest.Wait()
			cancel()
			wg.Wait()
			i := src.Inspect()
			require.LessOrEqual(t, i.Out, int64(50))
		}
	})
}
