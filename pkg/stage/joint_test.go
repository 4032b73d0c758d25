package stage_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// EDG-11: with Permanent a consumer of two ends with the first of them. With Joint it ends
// with the last.
func TestJointEndsWithTheLast(t *testing.T) {
	f := func(name string, mode stage.CancelMode, want []int) {
		bubble(t, name, func(t *testing.T) {
			one, two := &byHand{}, &byHand{}
			sink, got := keeper()
			stage.Connect[int](one, sink, mode)
			stage.Connect[int](two, sink, mode, stage.InPartition(2))
			wait, _ := start(t, sink)
			synctest.Wait()
			one.deliver(1)
			one.end(stage.Completed, nil)
			synctest.Wait()
			if sink.Inspect().State == "running" {
				two.deliver(2)
				two.end(stage.Shutdown, nil)
			}
			require.NoError(t, wait())
			require.Equal(t, want, got.get())
		})
	}
	f("permanent", stage.Permanent, []int{1})
	f("joint", stage.Joint, []int{1, 2})
}

// A joint subscription that did not end well ends the consumer at once; those of other
// modes do not count; and the reason of the last is the stage's.
func TestJoint(t *testing.T) {
	f := func(name string, ends []stage.Reason, modes []stage.CancelMode, state string) {
		bubble(t, name, func(t *testing.T) {
			g := stage.NewGate(stage.Map(double))
			var sources []*byHand
			for _, mode := range modes {
				src := &byHand{}
				sources = append(sources, src)
				stage.Connect[int](src, g, mode)
			}
			r := read(t, g)
			wait, stop := start(t, g)
			synctest.Wait()
			for i, reason := range ends {
				require.Equal(t, "running", g.Inspect().State)
				sources[i].end(reason, map[bool]error{false: errOops}[reason.Normal()])
				synctest.Wait()
			}
			require.Equal(t, state, g.Inspect().State)
			if state == "ended" {
				require.Equal(t, ends[len(ends)-1], r.endings.get()[0].Reason)
			}
			stop()
			for _, src := range sources[len(ends):] {
				src.end(stage.Cancelled, nil)
			}
			_ = wait()
		})
	}
	joint, temporary, permanent := stage.Joint, stage.Temporary, stage.Permanent
	f("the last completes", []stage.Reason{stage.Completed, stage.Completed}, []stage.CancelMode{joint, joint}, "ended")
	f("the last is shut down", []stage.Reason{stage.Completed, stage.Shutdown}, []stage.CancelMode{joint, joint}, "ended")
	f("one fails", []stage.Reason{stage.Failed}, []stage.CancelMode{joint, joint}, "failed")
	f("one is lost", []stage.Reason{stage.Completed, stage.Lost}, []stage.CancelMode{joint, joint, joint}, "failed")
	f("one is alone", []stage.Reason{stage.Completed}, []stage.CancelMode{joint}, "ended")
	f("with a temporary one", []stage.Reason{stage.Completed}, []stage.CancelMode{joint, temporary}, "ended")
	f("a temporary one does not end it", []stage.Reason{stage.Completed}, []stage.CancelMode{temporary, joint}, "running")
	f("a permanent one ends it", []stage.Reason{stage.Completed}, []stage.CancelMode{permanent, joint}, "ended")
}

// A joint subscription that is not made after all is not waited for.
func TestJointIsWithdrawn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, late := &byHand{}, &byHand{late: true}
		sink, _ := keeper()
		stage.Connect[int](one, sink, stage.Joint)
		wait, _ := start(t, sink)
		time.AfterFunc(time.Second, func() { one.end(stage.Completed, nil) })
		_, err := stage.Subscribe[int](t.Context(), late, sink, stage.Joint)
		require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
		require.NoError(t, wait())
	})
}

// DDX-13: subscribers that differ in max demand are accepted, with one warning for each.
func TestMixedMaxDemand(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var text bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
		defer slog.SetDefault(before)
		src := idle()
		src.Name = "src"
		src.OnDiscard = func(string, int) { t.Error("it is no discard") }
		for i, n := range []int{10, 10, 20} {
			sink, _ := keeper()
			sink.Name = "sink-" + string(rune('a'+i))
			_, err := stage.Subscribe(t.Context(), src, sink, stage.MaxDemand(n))
			require.NoError(t, err)
		}
		require.Equal(t, 1, strings.Count(text.String(), "\n"))
		require.Contains(t, text.String(), "level=WARN")
		require.Contains(t, text.String(), "stage=src first=10 subscriber=sink-c new=20")
		text.Reset()
		all := idle()
		all.Dispatcher = dispatch.Broadcast[int]()
		for _, n := range []int{10, 20} {
			sink, _ := keeper()
			_, err := stage.Subscribe(t.Context(), all, sink, stage.MaxDemand(n))
			require.NoError(t, err)
		}
		require.Empty(t, text.String())
	})
}

// The demand of a whole pipeline that is stopped while sources, gates and sinks of every
// feature are at work: nothing hangs, and what was emitted is handled or counted.
func TestEverythingAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Accumulate, src.Dispatcher, src.Buffer = true, dispatch.Broadcast[int](), stage.KeepLast(50)
		lost := 0
		src.OnDiscard = func(_ string, n int) { lost += n }
		src.OnSubscribers = func(stage.SubscriberChange) {}
		send := stage.Handle(src, func(_ context.Context, n int) ([]int, error) { return []int{n}, nil })
		g := stage.NewGate(stage.Map(double))
		g.Dispatcher = dispatch.Broadcast[int]()
		all, got := keeper()
		fours, gotFours := keeper()
		fours.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(1000) }
		fours.OnCancelled = func(*stage.Subscription, stage.Ending) error { return stage.Stop }
		stage.Connect(stage.Where[int](src, even), g, stage.MaxDemand(7), stage.Joint)
		stage.Connect(g, all, stage.Unbounded())
		stage.Connect(stage.Where(g, func(n int) bool { return n%8 == 0 }), fours, stage.Manual())
		wait, _ := start(t, src, g, all, fours)
		for i := range 100 {
			if i == 30 {
				src.Forward()
			}
			var err error
			switch i % 3 {
			case 0:
				err = src.Push(i)
			case 1:
				_, err = src.PushWait(t.Context(), i)
			case 2:
				err = send(i)
			}
			require.NoError(t, err)
			synctest.Wait()
		}
		src.Finish()
		require.NoError(t, wait())
		require.Zero(t, lost)
		require.Len(t, got.get(), 50)
		require.Len(t, gotFours.get(), 25)
	})
}
