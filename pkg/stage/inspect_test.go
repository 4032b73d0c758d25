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

// What an operator sees of a subscription, from either side.
func TestStatesOfASubscription(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		far, src := &byHand{late: true}, counter(25)
		step := make(chan struct{})
		sink := stage.NewSink(func(context.Context, []int) error { <-step; return nil })
		waiting := stage.Connect[int](far, sink, stage.Temporary)
		sub := stage.Connect(src, sink, stage.Manual(), stage.ResumeWindow(time.Minute))
		f := func(upper, lower string, granted, sent, acked int64) {
			t.Helper()
			synctest.Wait()
			up := src.Inspect().Subscribers[0]
			require.Equal(t, upper, up.State)
			require.Equal(t, lower, sub.Info().State)
			require.Equal(t, []int64{granted, sent, acked}, []int64{up.Granted, up.Sent, up.Acked})
			require.Equal(t, sink.Name, up.Terms.Stage)
			require.Equal(t, time.Minute, up.Terms.ResumeWindow)
		}
		wait, _ := start(t, src, sink)
		f("no-demand", "no-demand", 0, 0, 0)
		require.Equal(t, "waiting", waiting.Info().State)
		require.NoError(t, sub.Ask(10))
		f("no-demand", "in-flight", 10, 10, 0)
		require.Equal(t, int64(10), src.Inspect().Out)
		step <- struct{}{}
		f("no-demand", "no-demand", 10, 10, 10)
		require.NoError(t, sub.Ask(15))
		f("draining", "in-flight", 25, 25, 10)
		require.Equal(t, "ending", src.Inspect().State)
		step <- struct{}{}
		<-sub.Done()
		require.NoError(t, wait())
		require.Empty(t, src.Inspect().Subscribers)
		require.Equal(t, "ended", src.Inspect().State)
	})
}

// A tap sees what is emitted and changes nothing.
func TestTap(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		g := stage.NewGate(stage.Map(double))
		var seen log[int]
		stop := src.Tap(func(events []int) { seen.add(events...) })
		stopGate := g.Tap(func(events []int) { seen.add(events...) })
		src.Tap(func([]int) {})()
		sink, got := keeper()
		stage.Connect(src, g)
		stage.Connect(g, sink)
		require.NoError(t, stage.Run(t.Context(), src, g, sink))
		require.Equal(t, append(upTo(0, 10), doubled(10)...), seen.get())
		require.Equal(t, doubled(10), got.get())
		stop()
		stopGate()
		<-g.Done()
	})
}

// What a consumer's side can do besides asking: take its credit back, and give up by
// name what it cannot pass on.
func TestRevokeAndDiscard(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		next := 0
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			events := upTo(next, min(next+n, 4))
			next += len(events)
			return events, nil
		})
		lost := map[string]int{}
		src.OnDiscard = func(reason string, n int) { lost[reason] += n }
		r := read(t, src)
		wait, stop := start(t, src)
		require.NoError(t, r.Ask(3, 0))
		synctest.Wait()
		r.Discard(1, "too large")
		synctest.Wait()
		require.Equal(t, upTo(0, 4), r.events())
		require.Equal(t, map[string]int{"too large": 1}, lost)
		require.NoError(t, r.Ask(10, 3))
		require.Equal(t, int64(10), r.Revoke())
		require.Equal(t, int64(3), src.Inspect().Subscribers[0].Granted)
		r.Cancel(stage.Cancel[int]{Drain: true, Acked: 3})
		require.Zero(t, r.Revoke())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// A gate that cannot be started tells those who have subscribed to it.
func TestGateThatDoesNotStart(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		g := stage.NewGate(stage.Map(double))
		src := idle()
		stage.Connect(src, g)
		stage.Connect(src, g)
		r := read(t, g)
		require.ErrorIs(t, g.Run(t.Context()), stage.ErrAlreadySubscribed)
		require.Equal(t, stage.Failed, r.endings.get()[0].Reason)
		<-g.Done()
		require.ErrorIs(t, g.Run(t.Context()), stage.ErrAlreadyRun)
		require.Empty(t, src.Inspect().Subscribers)
	})
}

// A stage whose dispatcher has failed before it was run says so when it is.
func TestDispatcherFailsBeforeTheRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := counter(10), stage.NewGate(stage.Map(double))
		src.Dispatcher = &sabotaged{Dispatcher: dispatch.Demand[int](), where: "join", armed: true}
		g.Dispatcher = &sabotaged{Dispatcher: dispatch.Demand[int](), where: "join", armed: true}
		for _, o := range []stage.Outlet[int]{src, g} {
			_, err := o.Attach(stage.Terms{Partition: dispatch.NoPartition}, &reader{})
			var p *stage.PanicError
			require.ErrorAs(t, err, &p)
			require.ErrorAs(t, o.(stage.Runner).Run(t.Context()), &p)
		}
	})
}

func TestReasons(t *testing.T) {
	words := []string{"unknown", "completed", "shutdown", "cancelled", "failed", "refused", "lost", "unknown"}
	for i, word := range words {
		require.Equal(t, word, stage.Reason(i).String())
		require.Equal(t, i >= 1 && i <= 3, stage.Reason(i).Normal())
	}
}
