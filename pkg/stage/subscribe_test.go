package stage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// SUB-01 and DEM-04: what terms are refused, before anything else happens.
func TestDemandIsValidated(t *testing.T) {
	src := &byHand{}
	sink, _ := keeper()
	f := func(max, min int64, opts ...stage.Option) {
		t.Helper()
		_, err := stage.Subscribe[int](t.Context(), src, sink, opts...)
		require.ErrorIs(t, err, stage.ErrInvalidDemand)
		var d *stage.DemandError
		require.ErrorAs(t, err, &d)
		require.Equal(t, stage.DemandError{Max: max, Min: min}, *d)
	}
	f(10, 10, stage.MaxDemand(10), stage.MinDemand(10))
	f(10, 10, stage.MinDemand(10), stage.MaxDemand(10))
	f(10, 11, stage.MaxDemand(10), stage.MinDemand(11))
	f(10, -1, stage.MaxDemand(10), stage.MinDemand(-1))
	f(0, 0, stage.MaxDemand(0))
	f(-5, -3, stage.MaxDemand(-5))
	f(1000, 2000, stage.MinDemand(2000))
	require.Nil(t, src.receiver())
}

// DEM-02 and DEM-04: what is not set is derived.
func TestDefaultTerms(t *testing.T) {
	f := func(max, min int64, opts ...stage.Option) {
		t.Helper()
		sink, _ := keeper()
		sub, err := stage.Subscribe[int](t.Context(), &byHand{}, sink, opts...)
		require.NoError(t, err)
		terms := sub.Info().Terms
		require.Equal(t, []int64{max, min}, []int64{terms.MaxDemand, terms.MinDemand})
		require.Equal(t, dispatch.NoPartition, terms.Partition)
		require.Equal(t, stage.DefaultResumeWindow, terms.ResumeWindow)
		require.Equal(t, sink.Name, terms.Stage)
	}
	f(1000, 750)
	f(10, 7, stage.MaxDemand(10))
	f(1, 0, stage.MaxDemand(1))
	f(2, 1, stage.MaxDemand(2))
	f(1000, 0, stage.MinDemand(0))
	f(1<<63-1, (1<<63-1)/4*3+2, stage.MaxDemand(1<<63-1))
}

// SUB-07, SUB-09 and DBX-24: to itself, and to the same outlet twice, nobody subscribes;
// what there was before lives on.
func TestWhoIsRefused(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := idle()
		g := stage.NewGate(stage.Map(double))
		stage.Connect(src, g)
		wait, stop := start(t, src, g)
		synctest.Wait()
		_, err := stage.Subscribe(t.Context(), g, g)
		require.ErrorIs(t, err, stage.ErrSelfSubscription)
		_, err = stage.Subscribe(t.Context(), src, g)
		require.ErrorIs(t, err, stage.ErrAlreadySubscribed)
		_, err = stage.Subscribe(t.Context(), src, g, stage.InPartition(0)) // DPX-14
		require.ErrorIs(t, err, dispatch.ErrUnsupported)
		require.Len(t, g.Inspect().Subscriptions, 1)
		require.Equal(t, "running", g.Inspect().State)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		late := &byHand{}
		_, err = stage.Subscribe[int](t.Context(), late, g) // SUB-04
		require.ErrorIs(t, err, stage.ErrEnded)
		require.Empty(t, late.attached.get(), "the producer has not seen it")
		sink, _ := keeper()
		_, err = stage.Subscribe(t.Context(), g, sink) // SUB-05
		require.ErrorIs(t, err, stage.ErrEnded)
		var ended *stage.EndedError
		require.ErrorAs(t, err, &ended)
		require.Equal(t, stage.Shutdown, ended.Ending.Reason)
		require.Equal(t, "ready", sink.Inspect().State, "the consumer lives on")
	})
}

// SUB-12 and HOK-12: after its timeout a subscription is withdrawn. It does not come to
// life when the producer wakes up, and the pair can subscribe again.
func TestSubscribeTimeout(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &byHand{late: true}
		sink, got := keeper()
		wait, stop := start(t, sink)
		begin := time.Now()
		_, err := stage.Subscribe[int](t.Context(), src, sink, stage.Timeout(50*time.Millisecond))
		require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
		require.ErrorContains(t, err, `subscribe to "by hand"`)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		require.Equal(t, "withdrawn", src.cancels.get()[0].Reason)
		src.receiver().Opened()
		src.deliver(1, 2)
		src.end(stage.Failed, errOops)
		synctest.Wait()
		require.Empty(t, got.get())
		require.Equal(t, "running", sink.Inspect().State)
		require.Empty(t, sink.Inspect().Subscriptions)
		src.late = false
		_, err = stage.Subscribe[int](t.Context(), src, sink)
		require.NoError(t, err)
		stop()
		src.end(stage.Cancelled, nil)
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// SUB-11: 5 s where nothing is said. Accepted in time it lives, and refused it says why.
func TestSubscribeWaits(t *testing.T) {
	f := func(name string, after time.Duration, answer func(src *byHand), check func(err error)) {
		bubble(t, name, func(t *testing.T) {
			src := &byHand{late: true}
			sink, _ := keeper()
			wait, stop := start(t, sink)
			time.AfterFunc(after, func() { answer(src) })
			sub, err := stage.Subscribe[int](t.Context(), src, sink, stage.Temporary)
			check(err)
			require.Equal(t, err == nil, sub != nil)
			stop()
			src.end(stage.Cancelled, nil)
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
	opened := func(src *byHand) { src.receiver().Opened() }
	f("in time", 4999*time.Millisecond, opened, func(err error) { require.NoError(t, err) })
	f("too late", 5001*time.Millisecond, opened, func(err error) { require.ErrorIs(t, err, stage.ErrSubscribeTimeout) })
	f("refused", time.Second, func(src *byHand) { src.end(stage.Refused, errOops) }, func(err error) { require.ErrorIs(t, err, errOops) })
	f("accepted and over", time.Second, func(src *byHand) { opened(src); src.end(stage.Completed, nil) }, func(err error) { require.NoError(t, err) })
}

// A ctx that is over subscribes nobody.
func TestSubscribeWithEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOops)
	src, _ := &byHand{}, 0
	sink, _ := keeper()
	_, err := stage.Subscribe[int](ctx, src, sink)
	require.ErrorIs(t, err, errOops)
	require.Nil(t, src.receiver())
}

// SUB-17 and SUB-18: a declared subscription that cannot be made fails the start, by
// name; the others end well before anything has begun, so that nobody waits for them.
func TestStartFails(t *testing.T) {
	f := func(name string, want error, connect func(src *stage.Source[int], sink *stage.Sink[int]) *stage.Subscription) {
		bubble(t, name, func(t *testing.T) {
			src, host := counter(10), &host{}
			first, got := keeper()
			sink, _ := keeper()
			never, _ := keeper()
			ok := stage.Connect(src, first)
			before := stage.Connect(src, sink)
			bad := connect(src, sink)
			after := stage.Connect(src, never)
			err := stage.Run(t.Context(), host, src, first, sink, never)
			require.ErrorIs(t, err, want)
			require.ErrorContains(t, err, sink.Name)
			require.Empty(t, got.get(), "nothing has begun")
			for _, sub := range []*stage.Subscription{ok, before, bad, after} {
				<-sub.Done()
			}
			require.Error(t, bad.Ready(t.Context()))
			require.Equal(t, "ended", src.Inspect().State)
			require.Equal(t, "ended", first.Inspect().State)
			require.Equal(t, "failed", sink.Inspect().State)
			require.Equal(t, "ended", never.Inspect().State)
			require.Equal(t, []string{"start", "stop"}, host.did.get())
		})
	}
	f("twice", stage.ErrAlreadySubscribed, func(src *stage.Source[int], sink *stage.Sink[int]) *stage.Subscription {
		return stage.Connect(src, sink)
	})
	f("demand", stage.ErrInvalidDemand, func(_ *stage.Source[int], sink *stage.Sink[int]) *stage.Subscription {
		return stage.Connect(idle(), sink, stage.MaxDemand(0))
	})
	f("partition", dispatch.ErrUnsupported, func(_ *stage.Source[int], sink *stage.Sink[int]) *stage.Subscription {
		return stage.Connect(idle(), sink, stage.InPartition(1))
	})
	f("ended", stage.ErrEnded, func(_ *stage.Source[int], sink *stage.Sink[int]) *stage.Subscription {
		gone := counter(0)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = gone.Run(ctx)
		return stage.Connect(gone, sink)
	})
}

// host is a host that notes what it does.
type host struct {
	did        log[string]
	start, end error
}

func (h *host) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (h *host) Start(_ context.Context, _ []stage.Runner) error { h.did.add("start"); return h.start }
func (h *host) Stop(ctx context.Context) error                  { h.did.add("stop"); return h.end }

// Hosts start before the stages and stop after them, in the reverse order; where one
// does not start, those before it are stopped.
func TestHosts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		a, b, c := &host{}, &host{start: errOops}, &host{}
		require.ErrorIs(t, stage.Run(t.Context(), a, b, c), errOops)
		require.Equal(t, []string{"start", "stop"}, a.did.get())
		require.Equal(t, []string{"start"}, b.did.get())
		require.Empty(t, c.did.get())

		h := &host{end: errOops}
		src := counter(10)
		sink, got := keeper()
		stage.Connect(src, sink)
		require.ErrorIs(t, stage.Run(t.Context(), h, src, sink), errOops)
		require.Len(t, got.get(), 10)

		alone := &host{}
		wait, stop := start(t, alone)
		synctest.Wait()
		require.Equal(t, []string{"start"}, alone.did.get())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, []string{"start", "stop"}, alone.did.get())
	})
}

// A stage runs once; whoever runs it a second time does the first run no harm.
func TestRunsOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1000)
		sink, got := keeper()
		stage.Connect(src, sink, stage.Temporary)
		srcWait, _ := start(t, src)
		sinkWait, stop := start(t, sink)
		require.NoError(t, srcWait())
		require.ErrorIs(t, stage.Run(t.Context(), src), stage.ErrAlreadyRun)
		require.ErrorIs(t, sink.Run(t.Context()), stage.ErrAlreadyRun)
		synctest.Wait()
		require.Len(t, got.get(), 1000)
		require.Equal(t, "running", sink.Inspect().State)
		late := stage.Connect(idle(), sink)
		require.ErrorIs(t, late.Ready(t.Context()), stage.ErrAlreadyRun)
		stop()
		require.ErrorIs(t, sinkWait(), context.Canceled)
	})
}

// Run gives the cause of its ctx, unless something failed; with a ctx that is over
// everything ends at once.
func TestRunGivesTheCause(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errOops)
		src := counter(10)
		sink, _ := keeper()
		sub := stage.Connect(src, sink)
		require.ErrorIs(t, stage.Run(ctx, src, sink), errOops)
		<-sub.Done()
		own := runner(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		require.ErrorIs(t, stage.Run(ctx, own), errOops)
	})
}

type runner func(ctx context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// An outlet of a user's own may be of a type that cannot be compared.
type oddOutlet struct {
	stage.Outlet[int]
	_ []int
}

func TestOutletsThatCannotBeCompared(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		sink, got := keeper()
		stage.Connect[int](oddOutlet{Outlet: src}, sink)
		stage.Connect[int](oddOutlet{Outlet: idle()}, sink)
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, upTo(0, 10), got.get())
	})
}

// A subscription that is being made while its stage ends is ended with it.
type slowOutlet struct {
	*byHand
	attach func()
}

func (o slowOutlet) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	o.attach()
	return o.byHand.Attach(terms, r)
}

func TestSubscribeWhileTheStageEnds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		sink, _ := keeper()
		wait, stop := start(t, sink)
		synctest.Wait()
		src := slowOutlet{&byHand{}, func() { stop(); synctest.Wait() }}
		_, err := stage.Subscribe[int](t.Context(), src, sink)
		require.ErrorIs(t, err, stage.ErrEnded)
		require.Len(t, src.cancels.get(), 1)
		require.Empty(t, src.asks.get())
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// A subscription that is refused after the call that makes it, as over a network, is the
// caller's alone: whatever the mode, and while the handler is busy, it is over at once.
// SUB-16.
func TestRefusalIsTheCallers(t *testing.T) {
	for _, mode := range []stage.CancelMode{stage.Permanent, stage.Transient, stage.Joint} {
		bubble(t, fmt.Sprint(mode), func(t *testing.T) {
			busy, src := make(chan struct{}), stage.NewSource[int](nil)
			require.NoError(t, src.Push(1))
			sink := stage.NewSink(func(context.Context, []int) error { <-busy; return nil })
			sink.OnCancelled = func(_ *stage.Subscription, e stage.Ending) error {
				require.Equal(t, stage.Shutdown, e.Reason)
				return nil
			}
			stage.Connect(src, sink, stage.Temporary)
			wait, stop := start(t, src, sink)
			synctest.Wait()
			h := &byHand{late: true}
			for range 2 {
				time.AfterFunc(time.Second, func() { h.end(stage.Refused, errOops) })
				began := time.Now()
				_, err := stage.Subscribe[int](t.Context(), h, sink, mode)
				require.ErrorIs(t, err, errOops)
				require.Equal(t, time.Second, time.Since(began))
				require.Len(t, sink.Inspect().Subscriptions, 1)
			}
			close(busy)
			synctest.Wait()
			require.Equal(t, "running", sink.Inspect().State)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
}
