package stage_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

func hours(n ...int) (all []time.Duration) {
	for _, h := range n {
		all = append(all, time.Duration(h)*time.Hour)
	}
	return all
}

func spent(s stage.Inspector) []time.Duration {
	synctest.Wait()
	i := s.Inspect()
	return []time.Duration{i.Busy, i.Idle, i.Blocked}
}

// INT-05: where the time of a source goes. Times are those of the bubble, exactly.
func TestTimeOfASource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		empty := false
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			if empty {
				return nil, nil
			}
			time.Sleep(2 * time.Hour)
			return make([]int, n), nil
		})
		time.Sleep(time.Hour)
		require.Equal(t, hours(0, 0, 0), spent(src), "it does not run yet")
		wait, stop := start(t, src)
		r := read(t, src)
		time.Sleep(3 * time.Hour)
		require.Equal(t, hours(0, 0, 3), spent(src), "nobody asks")
		require.NoError(t, r.Ask(5, 0))
		time.Sleep(time.Hour)
		require.Equal(t, hours(1, 0, 3), spent(src), "in the middle of it")
		time.Sleep(5 * time.Hour)
		require.Equal(t, hours(2, 0, 7), spent(src))
		empty = true
		require.NoError(t, r.Ask(1, 5))
		time.Sleep(4 * time.Hour)
		require.Equal(t, hours(2, 4, 7), spent(src), "it has nothing")
		require.NoError(t, src.Push(1))
		time.Sleep(time.Hour)
		require.Equal(t, hours(2, 4, 8), spent(src), "what was asked for was pushed")
		stop()
		time.Sleep(time.Hour)
		require.Equal(t, hours(2, 4, 8), spent(src), "it ends: it waits for an acknowledgement")
		require.NoError(t, r.Ack(6))
		require.ErrorIs(t, wait(), context.Canceled)
		time.Sleep(time.Hour)
		require.Equal(t, hours(2, 4, 8), spent(src))
	})
}

// A handler that fails has been busy until then.
func TestTimeOfAFailure(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		fail := func() error { time.Sleep(time.Hour); return errOops }
		src := stage.NewSource(func(context.Context, int) ([]int, error) { return []int{1}, fail() })
		sink := stage.NewSink(func(context.Context, []int) error { return fail() })
		stage.Connect(src, sink, stage.Temporary)
		require.ErrorIs(t, stage.Run(t.Context(), src, sink), errOops)
		time.Sleep(time.Hour)
		require.Equal(t, hours(1, 0, 0), spent(src))
		require.Equal(t, hours(1, 1, 0), spent(sink))
	})
}

// INT-05: where the time of a gate and of a sink goes. A message counts like a batch.
func TestTimeOfAGateAndASink(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			time.Sleep(time.Hour)
			return events, nil
		})
		sink := stage.NewSink(func(context.Context, []int) error { time.Sleep(2 * time.Hour); return nil })
		send := stage.HandleSink(sink, func(context.Context, int) error { time.Sleep(time.Hour); return nil })
		stage.Connect(src, g, stage.MaxDemand(1))
		sub := stage.Connect(g, sink, stage.Manual())
		wait, _ := start(t, src, g, sink)
		time.Sleep(time.Hour)
		require.Equal(t, hours(0, 1, 0), spent(g), "it has asked, and waits for input")
		require.NoError(t, src.Push(1, 2, 3))
		time.Sleep(4 * time.Hour)
		require.Equal(t, hours(1, 1, 3), spent(g), "it holds its ask: nobody wants the event")
		require.Equal(t, hours(0, 5, 0), spent(sink))
		require.NoError(t, sub.Ask(1))
		time.Sleep(30 * time.Minute)
		require.Equal(t, []time.Duration{90 * time.Minute, time.Hour, 3 * time.Hour}, spent(g))
		time.Sleep(210 * time.Minute)
		require.Equal(t, hours(2, 1, 6), spent(g))
		require.Equal(t, hours(2, 7, 0), spent(sink))
		require.NoError(t, send(1))
		time.Sleep(2 * time.Hour)
		require.Equal(t, hours(3, 8, 0), spent(sink))
		require.NoError(t, sub.Ask(1))
		src.Finish()
		time.Sleep(time.Hour)
		require.Equal(t, hours(3, 1, 8), spent(g))
		require.NoError(t, sub.Ask(10))
		require.NoError(t, wait())
	})
}

// A gate whose input is asked for again by a newcomer stops being blocked at once.
func TestBlockedUntilSomebodyWants(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := stage.NewSource[int](nil), stage.NewGate(stage.Map(double))
		stage.Connect(src, g, stage.MaxDemand(1))
		wait, stop := start(t, src, g)
		require.NoError(t, src.Push(1))
		time.Sleep(time.Hour)
		require.Equal(t, hours(0, 0, 1), spent(g))
		r := read(t, g)
		time.Sleep(time.Hour)
		require.Equal(t, hours(0, 0, 2), spent(g), "it wants nothing yet")
		require.NoError(t, r.Ask(2, 0))
		time.Sleep(time.Hour)
		require.Equal(t, hours(0, 1, 2), spent(g))
		require.NoError(t, r.Ack(1))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// INT-05: what each end knows of a subscription.
func TestBothEndsOfASubscription(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		next := 0
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			events := upTo(next, min(next+n, 7))
			next += len(events)
			return events, nil
		})
		steps := make(chan struct{})
		sink := stage.NewSink(func(context.Context, []int) error { <-steps; return nil })
		sub := stage.Connect(src, sink, stage.MaxDemand(10), stage.MinDemand(5))
		require.Equal(t, stage.SubscriptionInfo{State: "waiting"}, sub.Info(), "it is declared")
		wait, stop := start(t, src, sink)
		f := func(upper, lower stage.SubscriptionInfo) {
			t.Helper()
			synctest.Wait()
			up, down := src.Inspect().Subscribers[0], sub.Info()
			upper.Outlet, upper.Terms = src.Name, up.Terms
			lower.Outlet, lower.Terms = src.Name, up.Terms
			require.Equal(t, upper, up)
			require.Equal(t, lower, down)
			require.Equal(t, down, sink.Inspect().Subscriptions[0])
		}
		f(stage.SubscriptionInfo{State: "no-events", Granted: 10, Sent: 7, Received: 7, Open: 10, Credit: 3, Pending: 7},
			stage.SubscriptionInfo{State: "in-flight", Granted: 10, Sent: 7, Received: 7, Open: 10, Credit: 3, Pending: 7})
		steps <- struct{}{}
		f(stage.SubscriptionInfo{State: "no-events", Granted: 15, Sent: 7, Received: 7, Acked: 5, Open: 10, Credit: 8, Pending: 2},
			stage.SubscriptionInfo{State: "in-flight", Granted: 15, Sent: 7, Received: 7, Acked: 5, Open: 10, Credit: 8, Pending: 2})
		steps <- struct{}{}
		f(stage.SubscriptionInfo{State: "no-events", Granted: 15, Sent: 7, Received: 7, Acked: 7, Open: 8, Credit: 8},
			stage.SubscriptionInfo{State: "flowing", Granted: 15, Sent: 7, Received: 7, Acked: 7, Open: 8, Credit: 8})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		last := sub.Info() // of one that has ended it is the last one
		require.Equal(t, "ended", last.State)
		require.Equal(t, []int64{15, 7, 7, 7}, []int64{last.Granted, last.Sent, last.Received, last.Acked})
	})
}

// What an end in another process cannot know is 0; and a held ask is not granted yet.
func TestOneEndOfASubscription(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h, g := &byHand{}, stage.NewGate(stage.Map(double))
		sub := stage.Connect[int](h, g, stage.MaxDemand(4), stage.MinDemand(2))
		far := &reader{}
		up, err := g.Attach(stage.Terms{Node: "elsewhere", Partition: dispatch.NoPartition}, far)
		require.NoError(t, err)
		require.NoError(t, up.Ask(1, 0))
		wait, _ := start(t, g)
		synctest.Wait()
		h.deliver(1, 2, 3, 4)
		synctest.Wait()
		i := sub.Info()
		require.Equal(t, "held", i.State)
		require.Equal(t, []int64{4, 0, 4, 4}, []int64{i.Granted, i.Sent, i.Received, i.Acked})
		require.Equal(t, []int64{0, 0, 4, 0}, []int64{i.Open, i.Credit, i.Held, i.Pending})
		whole := g.Inspect()
		require.Equal(t, []int64{4, 4}, []int64{whole.In, whole.Out})
		require.Equal(t, []int{3}, whole.Waiting)
		j := whole.Subscribers[0]
		require.Equal(t, []int64{1, 1, 0, 0}, []int64{j.Granted, j.Sent, j.Received, j.Acked})
		up.Cancel(stage.Cancel[int]{Drain: true, Acked: 0})
		synctest.Wait()
		require.Equal(t, "draining", g.Inspect().Subscribers[0].State)
		up.Cancel(stage.Cancel[int]{Acked: 1})
		g.OnDiscard = nil
		h.end(stage.Completed, nil)
		r := read(t, g)
		require.NoError(t, r.Ask(10, 0))
		require.NoError(t, r.Ack(3))
		require.NoError(t, wait())
	})
}

// What waits, by lane, and what only the departed had asked for.
func TestWhatWaits(t *testing.T) {
	src := stage.NewSource[int](nil)
	src.Dispatcher = dispatch.Partition(3, func(i int) int { return i })
	require.NoError(t, src.Push(0, 1, 3, 4, 6))
	require.Equal(t, []int{3, 2, 0}, src.Inspect().Waiting)
	require.Equal(t, 3, src.Inspect().Lanes)
	other := idle()
	r := read(t, other)
	require.NoError(t, r.Ask(10, 0))
	require.Equal(t, []int64{10, 0}, []int64{other.Inspect().Unmet, other.Inspect().Departed})
	r.Cancel(stage.Cancel[int]{})
	require.Equal(t, []int64{10, 10}, []int64{other.Inspect().Unmet, other.Inspect().Departed})
	next := read(t, other)
	require.NoError(t, next.Ask(4, 0))
	require.Equal(t, []int64{10, 6}, []int64{other.Inspect().Unmet, other.Inspect().Departed})
}

// Ended is closed when the stage has ended, and its last snapshot stands.
func TestEnded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := counter(3), stage.NewGate(stage.Map(double))
		sink, _ := keeper()
		stage.Connect(src, g)
		stage.Connect(g, sink)
		all := []stage.Inspector{src, g, sink}
		before := all[0].Ended()
		wait, _ := start(t, src, g, sink)
		for _, s := range all {
			<-s.Ended()
			require.Equal(t, "ended", s.Inspect().State)
		}
		<-before
		require.NoError(t, wait())
		require.Equal(t, []int64{3, 3, 3, 3}, []int64{src.Inspect().Out, g.Inspect().In, g.Inspect().Out, sink.Inspect().In})
		<-src.Ended()
		failing := stage.NewSource(func(context.Context, int) ([]int, error) { return nil, io.ErrUnexpectedEOF })
		read(t, failing)
		require.NoError(t, read(t, failing).Ask(1, 0))
		require.Error(t, failing.Run(t.Context()))
		<-failing.Ended()
		require.ErrorIs(t, failing.Inspect().Err, io.ErrUnexpectedEOF)
	})
}
