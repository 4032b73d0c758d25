package stage_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// A handler is told where its batch comes from: the subscription, the position, and
// whether somebody has had it before. DEM-17.
func TestDelivery(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		a, b := &byHand{}, &byHand{}
		var told log[string]
		var subA, subB *stage.Subscription
		sink := stage.NewSink(func(ctx context.Context, events []int) error {
			d, ok := stage.Delivery(context.WithValue(ctx, struct{ of int }{}, 1))
			require.True(t, ok)
			who := map[*stage.Subscription]string{subA: "a", subB: "b"}[d.Subscription]
			told.add(fmt.Sprint(who, " ", d.First, " ", events, " ", d.Redelivered, " ", d.Attempts))
			return nil
		})
		subA = stage.Connect[int](a, sink, stage.MaxDemand(4), stage.MinDemand(2))
		subB = stage.Connect[int](b, sink, stage.Temporary)
		wait, _ := start(t, sink)
		synctest.Wait()
		a.deliver(1, 2, 3, 4)
		b.receiver().Deliver(stage.Batch[int]{Events: []int{5}, Redelivered: true, Attempts: 2})
		b.deliver(6)
		synctest.Wait()
		require.Equal(t, []string{
			"a 1 [1 2] false 0", "a 3 [3 4] false 0", "b 1 [5] true 2", "b 2 [6] false 0",
		}, told.get())
		b.end(stage.Completed, nil)
		a.end(stage.Completed, nil)
		require.NoError(t, wait())
	})
}

// Elsewhere there is no delivery: in a source, in a message, in any other context.
func TestNoDelivery(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var told log[string]
		note := func(where string) func(ctx context.Context) {
			return func(ctx context.Context) {
				d, ok := stage.Delivery(ctx)
				require.Zero(t, d)
				require.False(t, ok)
				told.add(where)
			}
		}
		src := stage.NewSource(func(ctx context.Context, _ int) ([]int, error) {
			note("source")(ctx)
			return []int{1}, io.EOF
		})
		g := stage.NewGate(func(ctx context.Context, events []int) ([]int, error) {
			_, ok := stage.Delivery(ctx)
			require.True(t, ok)
			told.add("gate")
			return nil, nil
		})
		message := func(where string) func(context.Context, int) ([]int, error) {
			return func(ctx context.Context, _ int) ([]int, error) { note(where)(ctx); return nil, nil }
		}
		toSource, toGate := stage.Handle(src, message("message to source")), stage.Handle(g, message("message to gate"))
		stage.Connect(src, g, stage.Temporary)
		note("test")(t.Context())
		require.NoError(t, toSource(1))
		wait, stop := start(t, src, g)
		synctest.Wait()
		require.NoError(t, toGate(1)) // behind a batch
		synctest.Wait()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, []string{"test", "message to source", "source", "gate", "message to gate"}, told.get())
	})
}

// MAN-03: a handler that asks for its next batch sets its own pace. HOK-06: the first ask
// is made where the subscription is.
func TestHandlerAsksForItsNext(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(6)
		var got log[[]int]
		sink := stage.NewSink(func(ctx context.Context, events []int) error {
			got.add(append([]int{}, events...))
			d, _ := stage.Delivery(ctx)
			return d.Subscription.Ask(2)
		})
		sink.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(2) }
		stage.Connect(src, sink, stage.Manual())
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, [][]int{{0, 1}, {2, 3}, {4, 5}}, got.get())
	})
}

// A handler that cancels its subscription is given what was sent before, and no more.
func TestHandlerCancels(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		var got log[int]
		sink := stage.NewSink(func(ctx context.Context, events []int) error {
			got.add(events...)
			d, _ := stage.Delivery(ctx)
			d.Subscription.Cancel()
			if d.First > 1 { // MAN-07
				require.ErrorIs(t, d.Subscription.Ask(1), stage.ErrEnded)
			}
			return nil
		})
		sub := stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(4), stage.Temporary)
		wait, stop := start(t, src, sink)
		<-sub.Done()
		require.Equal(t, upTo(0, 6), got.get())
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
		require.Equal(t, "running", sink.Inspect().State)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// MAN-01, MAN-02, MAN-09 and BAT-04: a manual subscription moves when it is asked, and by
// exactly that much, in one batch; and asks for nothing by itself.
func TestManualPace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		sink, got := batches()
		sub := stage.Connect[int](src, sink, stage.Manual(), stage.MaxDemand(3)) // MAN-08: no cap
		wait, stop := start(t, src.Outlet.(stage.Runner), sink)
		synctest.Wait()
		require.Empty(t, src.asks.get())
		require.NoError(t, sub.Ask(4))
		synctest.Wait()
		require.NoError(t, sub.Ask(2))
		synctest.Wait()
		require.Equal(t, [][]int{{0, 1, 2, 3}, {4, 5}}, got.get())
		require.ErrorIs(t, sub.Ask(0), stage.ErrAskNotPositive)  // MAN-04
		require.ErrorIs(t, sub.Ask(-3), stage.ErrAskNotPositive) // MAN-05
		synctest.Wait()
		require.Equal(t, []int64{4, 2}, src.asks.get())
		_, err := stage.Subscribe(t.Context(), idle(), sink, stage.Manual(), stage.MaxDemand(0)) // MAN-08
		require.ErrorIs(t, err, stage.ErrInvalidDemand)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.ErrorIs(t, sub.Ask(1), stage.ErrEnded) // MAN-07
	})
}

// MAN-06: an ask on an automatic subscription adds to what it asks for by itself.
// MAN-10, corrected: it does not wait for a handler.
func TestAskBesideTheCycle(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(1 << 30)}
		steps := make(chan struct{})
		sink := stage.NewSink(func(ctx context.Context, _ []int) error { <-steps; return nil })
		sub := stage.Connect[int](src, sink, stage.MaxDemand(4), stage.MinDemand(2))
		wait, stop := start(t, src.Outlet.(stage.Runner), sink)
		synctest.Wait()
		require.NoError(t, sub.Ask(3))
		synctest.Wait()
		require.Equal(t, []int64{4, 3}, src.asks.get())
		require.Equal(t, []int64{7, 7}, []int64{sub.Info().Open, sub.Info().Received})
		steps <- struct{}{}
		steps <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int64{4, 3}, src.asks.get(), "3 are open still")
		steps <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int64{4, 3, 3}, src.asks.get())
		close(steps)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Unbounded demand is asked for once. What is not acknowledged is bounded all the same.
func TestUnbounded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &spy{Outlet: counter(250_000)}
		step := make(chan struct{})
		n := 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			if n += len(events); n <= 250 {
				<-step
			}
			require.LessOrEqual(t, len(events), 250)
			return nil
		})
		sub := stage.Connect[int](src, sink, stage.Unbounded())
		wait, _ := start(t, src.Outlet.(stage.Runner), sink)
		synctest.Wait()
		require.Equal(t, int64(100_000), sub.Info().Received)
		require.Equal(t, int64(1<<63-1), sub.Info().Granted)
		up := src.Outlet.(stage.Inspector).Inspect()
		require.Equal(t, []int64{0, 0, 100_000}, []int64{int64(up.Buffered), up.Unmet, up.Subscribers[0].Pending})
		close(step)
		require.NoError(t, wait())
		require.Equal(t, 250_000, n)
		require.Equal(t, []int64{1<<63 - 1}, src.asks.get())
	})
}

// Demand larger than what may be unacknowledged does not stall either.
func TestHugeDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, n := counter(450_000), 0
		sink := stage.NewSink(func(_ context.Context, events []int) error { n += len(events); return nil })
		stage.Connect(src, sink, stage.MaxDemand(400_000), stage.MinDemand(0))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, 450_000, n)
	})
}
