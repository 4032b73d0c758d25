package stage_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// What a consumer does when its producer ends, by mode.
func TestCancelModes(t *testing.T) {
	lives, ends := "running", "ended"
	f := func(name string, mode stage.Option, reason stage.Reason, want string) {
		bubble(t, name, func(t *testing.T) {
			src := &byHand{}
			sink, got := keeper()
			sub := stage.Connect[int](src, sink, mode, stage.MaxDemand(4))
			wait, stop := start(t, sink)
			synctest.Wait()
			src.deliver(1, 2)
			var cause error
			if !reason.Normal() {
				cause = errOops
			}
			src.end(reason, cause)
			synctest.Wait()
			require.Equal(t, []int{1, 2}, got.get(), "END-08")
			require.Equal(t, stage.Ending{Reason: reason, Err: cause}, sub.Ending())
			require.Equal(t, want, sink.Inspect().State)
			require.Equal(t, "ended", sub.Info().State)
			require.False(t, sub.Cancel(), "CAN-16")
			require.Empty(t, sink.Inspect().Subscriptions)
			if want == lives {
				stop()
				require.ErrorIs(t, wait(), context.Canceled)
				return
			}
			err := wait()
			if want == ends {
				require.NoError(t, err)
				return
			}
			var subErr *stage.SubscriptionError
			require.ErrorAs(t, err, &subErr)
			require.Equal(t, reason, subErr.Reason)
			require.ErrorIs(t, err, errOops)
			require.ErrorContains(t, err, `subscription to "by hand" `+reason.String())
		})
	}
	permanent := stage.Permanent
	f("CAN-02", permanent, stage.Failed, "failed")
	f("CAN-03", permanent, stage.Completed, ends)
	f("CAN-04", permanent, stage.Shutdown, ends)
	f("permanent, lost", permanent, stage.Lost, "failed")
	f("permanent, refused SUB-16", permanent, stage.Refused, "failed")
	f("CAN-05", stage.Transient, stage.Failed, "failed")
	f("CAN-06", stage.Transient, stage.Completed, lives)
	f("CAN-07", stage.Transient, stage.Shutdown, lives)
	f("CAN-09", stage.Transient, stage.Lost, "failed")
	f("CAN-12", stage.Transient, stage.Cancelled, lives)
	f("CAN-08", stage.Temporary, stage.Failed, lives)
	f("temporary, refused", stage.Temporary, stage.Refused, lives)
	f("temporary, completed", stage.Temporary, stage.Completed, lives)
}

// CAN-01 and CAN-10: permanent is the default. Cancelled, its consumer ends; the
// producer lives.
func TestCancelEndsAPermanentSink(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := idle()
		sink, _ := keeper()
		sub := stage.Connect(src, sink)
		sinkWait, _ := start(t, sink)
		srcWait, stop := start(t, src)
		synctest.Wait()
		require.NoError(t, sub.Ready(t.Context()))
		require.True(t, sub.Cancel())
		require.NoError(t, sinkWait())
		<-sub.Done()
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
		require.Equal(t, "running", src.Inspect().State)
		require.NoError(t, sub.Ready(t.Context()), "it was accepted once")
		stop()
		require.ErrorIs(t, srcWait(), context.Canceled)
	})
}

// CAN-11, CAN-16 and CAN-21: cancelled from the outside, a temporary subscription
// leaves both stages alive; until it is over a second one is refused, and then not.
func TestCancelTemporary(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		step := make(chan struct{})
		handled := 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			<-step
			handled += len(events)
			time.Sleep(time.Second)
			return nil
		})
		sub := stage.Connect(src, sink, stage.Temporary, stage.MaxDemand(8))
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.True(t, sub.Cancel())
		sub.Cancel()
		synctest.Wait()
		require.Equal(t, "draining", sub.Info().State)
		require.ErrorIs(t, sub.Ask(1), stage.ErrEnded)
		_, err := stage.Subscribe(t.Context(), src, sink)
		require.ErrorIs(t, err, stage.ErrAlreadySubscribed)
		close(step)
		<-sub.Done()
		require.Equal(t, 8, handled, "CAN-13: what was sent is handled, and nothing is asked for")
		require.Equal(t, int64(8), src.Inspect().Out)
		again, err := stage.Subscribe(t.Context(), src, sink, stage.Temporary)
		require.NoError(t, err)
		synctest.Wait()
		require.Greater(t, handled, 8)
		again.Cancel()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// A handler cancels the subscription that it is fed by, without waiting.
func TestCancelFromInsideAHandler(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		var sub *stage.Subscription
		handled := 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			handled += len(events)
			if handled == 1 {
				require.NoError(t, sub.Ask(1)) // it adds up, whatever the mode
				require.True(t, sub.Cancel())
			}
			return nil
		})
		sub = stage.Connect(src, sink, stage.MaxDemand(4))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.GreaterOrEqual(t, handled, 4)
		require.LessOrEqual(t, handled, 5)
	})
}

// CAN-17: a producer that fails before a cancelled subscription is over does not count
// any more; what was cancelled ends as cancelled.
func TestCancelThenProducerFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		fail := make(chan struct{})
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			if n == 10 {
				return make([]int, 10), nil
			}
			<-fail
			return nil, errOops
		})
		slow := stage.NewSink(func(context.Context, []int) error { time.Sleep(time.Second); return nil })
		sub := stage.Connect(src, slow, stage.MaxDemand(10))
		wait, _ := start(t, src, slow)
		time.Sleep(1500 * time.Millisecond)
		sub.Cancel()
		close(fail)
		require.ErrorIs(t, wait(), errOops)
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
		require.Equal(t, "ended", slow.Inspect().State)
	})
}

// CAN-26 and DDX-18: a consumer that dies leaves the others what they have, and what
// they are yet to get.
func TestSiblingLivesOn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1000)
		sick := stage.NewSink(func(context.Context, []int) error { return errOops })
		sink, got := keeper()
		stage.Connect(src, sick, stage.MaxDemand(10))
		stage.Connect(src, sink, stage.MaxDemand(10))
		require.ErrorIs(t, stage.Run(t.Context(), src, sick, sink), errOops)
		require.ElementsMatch(t, upTo(0, 1000), got.get(), "at least once")
	})
}

// With two producers and default terms a sink ends with the first; transient ones let
// it have both.
func TestFanIn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		a, b := counter(500), counter(500)
		sink, got := keeper()
		stage.Connect(a, sink, stage.Transient)
		stage.Connect(b, sink, stage.Transient)
		wait, stop := start(t, a, b, sink)
		synctest.Wait()
		require.Len(t, got.get(), 1000)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Done is closed however a subscription is cut short: here it is cancelled, or its
// producer has ended, and the sink fails before it gets there.
func TestDoneIsClosedWhenTheSinkFailsFirst(t *testing.T) {
	f := func(name string, between func(sub *stage.Subscription, src *byHand)) {
		bubble(t, name, func(t *testing.T) {
			src, step := &byHand{}, make(chan struct{})
			sink := stage.NewSink(func(context.Context, []int) error { <-step; return errOops })
			sub := stage.Connect[int](src, sink, stage.MaxDemand(4))
			wait, _ := start(t, sink)
			synctest.Wait()
			src.deliver(1, 2, 3)
			between(sub, src)
			close(step)
			require.ErrorIs(t, wait(), errOops)
			<-sub.Done()
			require.NotZero(t, sub.Ending().Reason)
			last := src.cancels.get()[len(src.cancels.get())-1]
			require.False(t, last.Drain)
			require.Equal(t, []stage.Returned[int]{{Event: 1, Attempts: 1}, {Event: 2}, {Event: 3}}, last.Rest)
		})
	}
	f("cancelled", func(sub *stage.Subscription, src *byHand) { sub.Cancel() })
	f("completed", func(sub *stage.Subscription, src *byHand) { src.end(stage.Completed, nil) })
	f("nothing", func(sub *stage.Subscription, src *byHand) {})
}

// A delivery that is on its way while its consumer stops comes back too.
func TestDeliveryWhileTheSinkStops(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const n = 200_000
		src := counter(n)
		seen := make(map[int]bool, n)
		for len(seen) < n {
			left := 1 + len(seen)%7
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				for _, e := range events {
					seen[e] = true
				}
				if left--; left == 0 {
					return stage.Stop
				}
				return nil
			})
			stage.Connect(src, sink, stage.MaxDemand(2000), stage.Temporary)
			if len(seen) == 0 {
				_, _ = start(t, src)
			}
			if err := sink.Run(t.Context()); err != nil {
				require.ErrorIs(t, err, stage.ErrEnded)
				break
			}
		}
		require.Len(t, seen, n)
		require.Empty(t, src.Inspect().Discarded)
	})
}
