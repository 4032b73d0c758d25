package stage_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

func double(i int) int { return 2 * i }

// doubled is the first n even numbers.
func doubled(n int) []int {
	events := upTo(0, n)
	for i := range events {
		events[i] *= 2
	}
	return events
}

// GAT-22: the order of declaration and of running does not matter.
func TestGateInTheMiddle(t *testing.T) {
	f := func(name string, build func(src *stage.Source[int], g *stage.Gate[int, int], sink *stage.Sink[int]) []stage.Runner) {
		bubble(t, name, func(t *testing.T) {
			src, g := counter(5000), stage.NewGate(stage.Map(double))
			sink, got := keeper()
			require.NoError(t, stage.Run(t.Context(), build(src, g, sink)...))
			require.Equal(t, doubled(5000), got.get())
		})
	}
	f("from the source", func(src *stage.Source[int], g *stage.Gate[int, int], sink *stage.Sink[int]) []stage.Runner {
		stage.Connect(src, g, stage.MaxDemand(100), stage.MinDemand(80))
		stage.Connect(g, sink, stage.MaxDemand(100), stage.MinDemand(50))
		return []stage.Runner{src, g, sink}
	})
	f("from the sink", func(src *stage.Source[int], g *stage.Gate[int, int], sink *stage.Sink[int]) []stage.Runner {
		stage.Connect(g, sink, stage.MaxDemand(100), stage.MinDemand(50))
		stage.Connect(src, g, stage.MaxDemand(100), stage.MinDemand(20))
		return []stage.Runner{sink, g, src}
	})
}

// GAT-01, GAT-07 and GAT-09: without a subscriber a gate fetches what it asks for at
// first, and holds the refills.
func TestGateWithoutSubscriber(t *testing.T) {
	f := func(name string, factor, buffered int, opts ...stage.Option) {
		bubble(t, name, func(t *testing.T) {
			src := &spy{Outlet: counter(1 << 30)}
			g := stage.NewGate(func(_ context.Context, events []int) (out []int, err error) {
				for range factor {
					out = append(out, events...)
				}
				return out, nil
			})
			stage.Connect[int](src, g, opts...)
			wait, stop := start(t, src.Outlet.(stage.Runner), g)
			synctest.Wait()
			require.Len(t, src.asks.get(), 1)
			require.Equal(t, buffered, g.Inspect().Buffered)
			require.Equal(t, src.asks.get()[0], g.Inspect().In)
			require.Equal(t, "held", g.Inspect().Subscriptions[0].State)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
	small := []stage.Option{stage.MaxDemand(6), stage.MinDemand(2)}
	f("1 to 1", 1, 6, small...)
	f("defaults", 1, 1000)
	f("GAT-08 expanding", 3, 18, small...)
	f("times 1000", 1000, 6000, small...)
	f("filtering all", 0, 0, small...)
}

// GAT-03, GAT-05 and GAT-06: a blocked sink is felt by the source, and one step of it
// lets demand through.
func TestGateHoldsWhileSinkIsBlocked(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		g := stage.NewGate(stage.Map(double))
		steps := make(chan struct{})
		sink := stage.NewSink(func(ctx context.Context, _ []int) error {
			<-steps
			return nil
		})
		terms := []stage.Option{stage.MaxDemand(6), stage.MinDemand(2)}
		stage.Connect[int](src, g, terms...)
		stage.Connect(g, sink, terms...)
		wait, stop := start(t, src.Outlet.(stage.Runner), g, sink)
		synctest.Wait()
		before := len(src.asks.get())
		time.Sleep(time.Hour)
		require.Len(t, src.asks.get(), before, "it waits for the sink")
		require.LessOrEqual(t, g.Inspect().Buffered, 6)
		steps <- struct{}{}
		synctest.Wait()
		require.Greater(t, len(src.asks.get()), before)
		close(steps)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// GAT-10: a gate that passes on little keeps the flow moving.
func TestFilteringGate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(100_000)
		g := stage.NewGate(stage.Filter(func(i int) bool { return i%20_000 == 0 }))
		sink, got := keeper()
		stage.Connect(src, g, stage.MaxDemand(10))
		stage.Connect(g, sink, stage.MaxDemand(1))
		require.NoError(t, stage.Run(t.Context(), src, g, sink))
		require.Equal(t, []int{0, 20_000, 40_000, 60_000, 80_000}, got.get())
	})
}

// GAT-11: the queues of partitions hold up the input like any other buffer.
func TestPartitionedGateHolds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		g := stage.NewGate(stage.Map(double))
		g.Dispatcher = dispatch.Partition(2, func(i int) int { return i / 2 })
		wait, stop := start(t, src, g)
		_, err := stage.Subscribe(t.Context(), src, g, stage.MaxDemand(10))
		require.NoError(t, err)
		up, err := g.Attach(stage.Terms{Partition: 1}, &reader{})
		require.NoError(t, err)
		require.NoError(t, up.Ask(1, 0))
		synctest.Wait()
		require.Less(t, g.Inspect().Buffered, 30)
		up.Cancel(stage.Cancel[int]{Acked: 1})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// GAT-13 and GAT-14: what a gate holds is kept when its subscriber leaves, and goes to
// the next one, in order.
func TestGateKeepsForTheNext(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := counter(100), stage.NewGate(stage.Map(double))
		stage.Connect(src, g, stage.MaxDemand(10))
		wait, _ := start(t, src, g)
		synctest.Wait()
		r := read(t, g)
		require.NoError(t, r.Ask(3, 0))
		require.Equal(t, []int{0, 2, 4}, r.events())
		r.Cancel(stage.Cancel[int]{Acked: 3})
		synctest.Wait()
		require.Equal(t, 7, g.Inspect().Buffered)
		next := read(t, g)
		require.NoError(t, next.Ask(200, 0))
		synctest.Wait()
		require.Equal(t, doubled(100)[3:], next.events())
		require.NoError(t, next.Ack(97))
		require.NoError(t, wait())
		require.Equal(t, stage.Completed, next.endings.get()[0].Reason)
	})
}

// GAT-12: with a broadcast, the slower one sets the pace of the input too.
func TestBroadcastingGate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		g := stage.NewGate(stage.Map(double))
		g.Dispatcher = dispatch.Broadcast[int]()
		a, b := read(t, g), read(t, g)
		require.NoError(t, a.Ask(6, 0))
		require.NoError(t, b.Ask(2, 0))
		stage.Connect[int](src, g, stage.MaxDemand(6), stage.MinDemand(2))
		wait, stop := start(t, src.Outlet.(stage.Runner), g)
		synctest.Wait()
		require.Equal(t, a.events(), b.events())
		require.Equal(t, []int{0, 2}, b.events())
		asked := len(src.asks.get())
		require.NoError(t, a.Ask(6, 2))
		synctest.Wait()
		require.Len(t, src.asks.get(), asked, "the slower one has not asked")
		b.Cancel(stage.Cancel[int]{Acked: 2})
		synctest.Wait()
		require.Len(t, a.events(), 12)
		require.Greater(t, len(src.asks.get()), asked)
		a.Cancel(stage.Cancel[int]{Acked: 12})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// DSC-05 and BUF-14: a gate that makes more of it than is wanted, and keeps nothing.
func TestExpandingGateWithoutBuffer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(4)
		g := stage.NewGate(func(_ context.Context, events []int) (out []int, err error) {
			for range 3 {
				out = append(out, events...)
			}
			return out, nil
		})
		g.Buffer = stage.KeepLast(0)
		lost := map[string]int{}
		g.OnDiscard = func(reason string, n int) { lost[reason] += n }
		r := read(t, g)
		require.NoError(t, r.Ask(6, 0))
		stage.Connect(src, g, stage.MaxDemand(4), stage.MinDemand(0))
		wait, _ := start(t, src, g)
		synctest.Wait()
		require.NoError(t, r.Ack(6))
		require.NoError(t, wait())
		require.Equal(t, []int{0, 1, 2, 3, 0, 1}, r.events())
		require.Equal(t, map[string]int{stage.DiscardOverflow: 6}, lost)
	})
}

// GAT-24, corrected: a gate that stops serves what it has made.
func TestGateStops(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			return events, stage.Stop
		})
		sink, got := keeper()
		stage.Connect(src, g, stage.MaxDemand(40), stage.MinDemand(30))
		sub := stage.Connect(g, sink, stage.MaxDemand(3))
		require.NoError(t, stage.Run(t.Context(), src, g, sink))
		require.Equal(t, upTo(0, 10), got.get())
		require.Equal(t, stage.Completed, sub.Ending().Reason)
		require.Equal(t, "ended", g.Inspect().State)
	})
}

// The output of a batch whose handler failed does not go on: its input goes back.
func TestFailedBatchIsNotPassedOn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) { return events, errOops })
		sink, got := keeper()
		other := read(t, src)
		stage.Connect(src, g, stage.MaxDemand(8))
		stage.Connect(g, sink)
		wait, stop := start(t, src, g, sink)
		synctest.Wait()
		require.NoError(t, other.Ask(8, 0))
		synctest.Wait()
		require.Empty(t, got.get())
		require.Equal(t, upTo(0, 8), other.events())
		other.Cancel(stage.Cancel[int]{Acked: 8})
		stop()
		require.ErrorIs(t, wait(), errOops)
	})
}
