package stage_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// change puts a SubscriberChange in words.
func change(c stage.SubscriberChange) string {
	if c.Left == nil {
		return fmt.Sprint(c.Who.Stage, " arrived, ", c.Count)
	}
	return fmt.Sprint(c.Who.Stage, " left, ", c.Left.Reason, ", ", c.Count)
}

// HOK-01 and HOK-02: who arrives and who leaves, each once, and how many there are then.
func TestOnSubscribers(t *testing.T) {
	f := func(name string, build func(hook func(stage.SubscriberChange)) (stage.Outlet[int], []stage.Runner)) {
		bubble(t, name, func(t *testing.T) {
			var told log[string]
			o, stages := build(func(c stage.SubscriberChange) { told.add(change(c)) })
			wait, stop := start(t, stages...)
			first := attach(t, o, "first")
			second := attach(t, o, "second")
			_, err := o.Attach(stage.Terms{Stage: "third", Partition: 7}, &reader{}) // DPX-13
			require.ErrorIs(t, err, dispatch.ErrUnsupported)
			require.NoError(t, first.Ask(1, 0))
			synctest.Wait()
			require.Equal(t, []string{"first arrived, 1", "second arrived, 2"}, told.get())
			second.Cancel(stage.Cancel[int]{Drain: true})
			second.Cancel(stage.Cancel[int]{})
			require.Error(t, first.Ask(0, 0)) // it breaks a rule
			first.Cancel(stage.Cancel[int]{Acked: 1})
			synctest.Wait()
			require.Equal(t, []string{"second left, cancelled, 1", "first left, refused, 0"}, told.get()[2:])
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
			require.Len(t, told.get(), 4)
		})
	}
	f("source", func(hook func(stage.SubscriberChange)) (stage.Outlet[int], []stage.Runner) {
		src := idle()
		src.OnSubscribers = hook
		return src, []stage.Runner{src}
	})
	f("gate", func(hook func(stage.SubscriberChange)) (stage.Outlet[int], []stage.Runner) {
		src, g := idle(), stage.NewGate(stage.Map(double))
		g.OnSubscribers = hook
		stage.Connect(src, g)
		return g, []stage.Runner{src, g}
	})
}

func attach(t *testing.T, o stage.Outlet[int], name string) *reader {
	t.Helper()
	r := &reader{}
	up, err := o.Attach(stage.Terms{Stage: name, Partition: dispatch.NoPartition}, r)
	require.NoError(t, err)
	r.Upstream = up
	return r
}

// Who leaves while a source ends is nobody's news any more, and takes no memory.
func TestOnSubscribersOfASourceThatEnds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1)
		var told log[string]
		src.OnSubscribers = func(c stage.SubscriberChange) { told.add(change(c)) }
		r := attach(t, src, "r")
		wait, _ := start(t, src)
		require.NoError(t, r.Ask(1, 0))
		synctest.Wait()
		attach(t, src, "late").Cancel(stage.Cancel[int]{})
		require.Zero(t, src.Inspect().Messages)
		require.NoError(t, r.Ack(1))
		require.NoError(t, wait())
		require.Equal(t, []string{"r arrived, 1"}, told.get())
	})
}

// HOK-04 and HOK-05: what a newcomer asks for is produced behind the hook that says it is
// there. When one leaves, first the others get what waits, then the hook is told, and
// then more is produced.
func TestOnSubscribersComesBeforeProducing(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var told log[string]
		next := 0
		src := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
			told.add(fmt.Sprint("produce ", demand))
			if next > 0 {
				return nil, nil
			}
			next = 3
			return upTo(0, 3), nil
		})
		src.Dispatcher = dispatch.Broadcast[int]()
		src.OnSubscribers = func(c stage.SubscriberChange) { told.add(change(c)) }
		wait, stop := start(t, src)
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			told.add(fmt.Sprint("handle ", events))
			return nil
		})
		sink.Name = "sink"
		stage.Connect(src, sink, stage.MaxDemand(6), stage.MinDemand(0))
		slow := attach(t, src, "slow")
		require.NoError(t, slow.Ask(1, 0))
		synctest.Wait()
		waitSink, _ := start(t, sink)
		synctest.Wait()
		require.Equal(t, []string{"slow arrived, 1", "produce 1", "sink arrived, 2"}, told.get())
		slow.Cancel(stage.Cancel[int]{Acked: 1})
		synctest.Wait()
		after := told.get()[3:]
		require.Less(t, slices.Index(after, "slow left, cancelled, 1"), slices.Index(after, "produce 4"), "%v", after)
		require.Contains(t, after, "handle [1 2]", "what waited")
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.NoError(t, waitSink())
	})
}

// HOK-03: the hook cannot end the stage by what it returns, but a panic of it does.
func TestOnSubscribersPanics(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := idle()
		src.OnSubscribers = func(stage.SubscriberChange) { panic("boom") }
		wait, _ := start(t, src)
		r := read(t, src)
		var p *stage.PanicError
		require.ErrorAs(t, wait(), &p)
		require.Equal(t, stage.Failed, r.endings.get()[0].Reason)
	})
}

// HOK-06: a sink makes its first ask in the hook, wherever the subscription comes from.
func TestOnSubscribedAsks(t *testing.T) {
	f := func(name string, subscribe func(t *testing.T, src stage.Outlet[int], sink *stage.Sink[int]) func()) {
		bubble(t, name, func(t *testing.T) {
			src, batches := counter(1<<30), log[[]int]{}
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				batches.add(append([]int{}, events...))
				return nil
			})
			var told log[*stage.Subscription]
			sink.OnSubscribed = func(sub *stage.Subscription) error {
				told.add(sub)
				return sub.Ask(2)
			}
			wait, stop := start(t, src)
			finish := subscribe(t, src, sink)
			synctest.Wait()
			require.Equal(t, [][]int{{0, 1}}, batches.get())
			require.Len(t, told.get(), 1)
			require.Equal(t, int64(2), told.get()[0].Info().Granted)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
			finish()
		})
	}
	f("declared", func(t *testing.T, src stage.Outlet[int], sink *stage.Sink[int]) func() {
		stage.Connect(src, sink, stage.Manual())
		wait, _ := start(t, sink)
		return func() { require.NoError(t, wait()) }
	})
	f("at run time", func(t *testing.T, src stage.Outlet[int], sink *stage.Sink[int]) func() {
		wait, _ := start(t, sink)
		synctest.Wait()
		_, err := stage.Subscribe(t.Context(), src, sink, stage.Manual())
		require.NoError(t, err)
		return func() { require.NoError(t, wait()) }
	})
	f("accepted before Attach returns", func(t *testing.T, src stage.Outlet[int], sink *stage.Sink[int]) func() {
		wait, _ := start(t, sink)
		synctest.Wait()
		_, err := stage.Subscribe[int](t.Context(), slowly{src}, sink, stage.Manual())
		require.NoError(t, err)
		return func() { require.NoError(t, wait()) }
	})
}

// What a hook asks for while the subscription is being made goes out with the first ask.
func TestOnSubscribedAsksEarly(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h := &byHand{}
		sink, _ := keeper()
		sink.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(2) }
		wait, _ := start(t, sink)
		synctest.Wait()
		sub, err := stage.Subscribe[int](t.Context(), slowly{h}, sink, stage.MaxDemand(5))
		require.NoError(t, err)
		require.Equal(t, []int64{7}, h.asks.get())
		require.Equal(t, int64(7), sub.Info().Open) // MAN-06
		h.end(stage.Completed, nil)
		require.NoError(t, wait())
	})
}

// slowly is an outlet that takes its time to return what it has accepted.
type slowly struct{ stage.Outlet[int] }

func (s slowly) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	up, err := s.Outlet.Attach(terms, r)
	time.Sleep(time.Second)
	return up, err
}

// A hook may also cancel a subscription that is still being made.
func TestOnSubscribedCancels(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h := &byHand{}
		sink, _ := keeper()
		var told log[string]
		sink.OnSubscribed = func(sub *stage.Subscription) error {
			told.add(fmt.Sprint(sub.Cancel(), sub.Ask(1)))
			return nil
		}
		sink.OnCancelled = func(_ *stage.Subscription, e stage.Ending) error {
			told.add(e.Reason.String())
			return stage.Stop
		}
		wait, _ := start(t, sink)
		synctest.Wait()
		_, err := stage.Subscribe[int](t.Context(), slowly{h}, sink)
		require.NoError(t, err)
		require.Empty(t, h.asks.get())
		require.True(t, h.cancels.get()[0].Drain)
		h.end(stage.Cancelled, nil)
		require.NoError(t, wait())
		require.Equal(t, []string{"true the stage has ended", "cancelled"}, told.get())
	})
}

// Hooks may be set, and subscriptions made from several goroutines at once.
func TestHooksOfManySubscriptions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var arrived, left atomic.Int64
		sink, _ := keeper()
		sink.OnSubscribed = func(*stage.Subscription) error { arrived.Add(1); return nil }
		sink.OnCancelled = func(*stage.Subscription, stage.Ending) error { left.Add(1); return nil }
		wait, stop := start(t, sink)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				src := counter(1 << 30)
				waitSource, stopSource := start(t, src)
				sub, err := stage.Subscribe(t.Context(), src, sink)
				require.NoError(t, err)
				sub.Cancel()
				<-sub.Done()
				stopSource()
				require.ErrorIs(t, waitSource(), context.Canceled)
			})
		}
		wg.Wait()
		synctest.Wait()
		require.Equal(t, []int64{20, 20}, []int64{arrived.Load(), left.Load()})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// HOK-07: what OnSubscribed returns ends the stage.
func TestOnSubscribedEndsTheStage(t *testing.T) {
	f := func(name string, hook func(*stage.Subscription) error, check func(t *testing.T, err error)) {
		bubble(t, name, func(t *testing.T) {
			src, sink := counter(100), (*stage.Sink[int])(nil)
			sink, got := keeper()
			sink.OnSubscribed = hook
			stage.Connect(src, sink)
			err := stage.Run(t.Context(), src, sink)
			check(t, err)
			require.Empty(t, got.get())
		})
	}
	f("Stop", func(*stage.Subscription) error { return stage.Stop }, func(t *testing.T, err error) { require.NoError(t, err) })
	f("an error", func(*stage.Subscription) error { return errOops }, func(t *testing.T, err error) { require.ErrorIs(t, err, errOops) })
	f("a panic", func(*stage.Subscription) error { panic("boom") }, func(t *testing.T, err error) {
		var p *stage.PanicError
		require.ErrorAs(t, err, &p)
	})
}

// HOK-08 and HOK-12: of a subscription that was withdrawn neither hook is ever told.
func TestHooksOfAWithdrawnSubscription(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h := &byHand{late: true}
		sink, _ := keeper()
		sink.OnSubscribed = func(*stage.Subscription) error { t.Error("told"); return nil }
		sink.OnCancelled = func(*stage.Subscription, stage.Ending) error { t.Error("told"); return nil }
		wait, stop := start(t, sink)
		_, err := stage.Subscribe[int](t.Context(), h, sink, stage.Timeout(time.Second))
		require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
		h.receiver().Opened()
		h.end(stage.Failed, errOops)
		synctest.Wait()
		require.Equal(t, "running", sink.Inspect().State)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// HOK-09, HOK-10 and HOK-11: OnCancelled is told which subscription has ended and how,
// behind its last batch, and decides, whatever the mode is.
func TestOnCancelledDecides(t *testing.T) {
	f := func(name string, reason stage.Reason, mode stage.CancelMode, verdict error, state string) {
		bubble(t, name, func(t *testing.T) {
			h, other := &byHand{}, &spy{Outlet: idle()}
			var told log[string]
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				told.add(fmt.Sprint(events))
				return nil
			})
			var sub *stage.Subscription
			sink.OnCancelled = func(which *stage.Subscription, e stage.Ending) error {
				told.add(fmt.Sprint(which == sub, e.Reason, e.Err))
				return verdict
			}
			stage.Connect[int](other, sink)
			sub = stage.Connect[int](h, sink, mode)
			wait, stop := start(t, sink, other.Outlet.(stage.Runner))
			synctest.Wait()
			h.deliver(1, 2)
			var cause error
			if !reason.Normal() {
				cause = errOops
			}
			h.end(reason, cause)
			synctest.Wait()
			require.Equal(t, []string{"[1 2]", fmt.Sprint("true ", reason, " ", cause)}, told.get())
			require.Equal(t, state, sink.Inspect().State)
			stop()
			err := wait()
			if state == "failed" {
				require.ErrorIs(t, err, verdict)
			}
		})
	}
	f("it goes on after a failure", stage.Failed, stage.Permanent, nil, "running")
	f("it goes on after an end", stage.Completed, stage.Permanent, nil, "running")
	f("it goes on when lost", stage.Lost, stage.Joint, nil, "running")
	f("it ends after a failure", stage.Failed, stage.Permanent, stage.Stop, "ended")
	f("it ends where the mode would not", stage.Cancelled, stage.Temporary, stage.Stop, "ended")
	f("it fails where the mode would not", stage.Shutdown, stage.Temporary, errOops, "failed")
}

// A subscription that was never accepted is not the hook's, whose OnSubscribed was not
// told of it: its cancel mode decides. HOK-12, SUB-16.
func TestRefusedBeforeTheHook(t *testing.T) {
	f := func(name string, mode stage.CancelMode, state string) {
		bubble(t, name, func(t *testing.T) {
			h := &byHand{late: true}
			sink, _ := keeper()
			sink.OnCancelled = func(*stage.Subscription, stage.Ending) error { t.Error("told"); return nil }
			stage.Connect[int](h, sink, mode)
			wait, stop := start(t, sink)
			synctest.Wait()
			h.end(stage.Refused, errOops)
			synctest.Wait()
			require.Equal(t, state, sink.Inspect().State)
			stop()
			_ = wait()
		})
	}
	f("permanent", stage.Permanent, "failed")
	f("temporary", stage.Temporary, "running")
}

// Whatever happens to subscriptions, OnSubscribed and OnCancelled come in pairs, in this
// order, and the latter is not told of those that end with the stage.
func TestHooksComeInPairs(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		sink := stage.NewSink(func(context.Context, []int) error { return errOops })
		var told log[string]
		sink.OnSubscribed = func(sub *stage.Subscription) error { told.add("subscribed"); return nil }
		sink.OnCancelled = func(*stage.Subscription, stage.Ending) error { told.add("cancelled"); return nil }
		h, src := &byHand{}, counter(10)
		stage.Connect[int](h, sink)
		sub := stage.Connect(src, sink, stage.Manual())
		wait, stop := start(t, src, sink)
		synctest.Wait()
		h.end(stage.Completed, nil)
		synctest.Wait()
		require.Equal(t, []string{"subscribed", "subscribed", "cancelled"}, told.get())
		require.NoError(t, sub.Ask(1))
		<-sink.Ended()
		require.Len(t, told.get(), 3)
		stop()
		require.ErrorIs(t, wait(), errOops)
	})
}
