package stage_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

func even(n int) bool { return n%2 == 0 }

func none(int) bool { return false }

// broadcasting is a counter with a broadcast.
func broadcasting(limit int) *stage.Source[int] {
	src := counter(limit)
	src.Dispatcher = dispatch.Broadcast[int]()
	return src
}

// DBX-17, DBX-18 and DBX-21: each gets what it keeps, the others are not affected, and
// automatic demand does not stall on what is left out.
func TestWhere(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := broadcasting(5000)
		all, gotAll := keeper()
		some, gotSome := keeper()
		few, gotFew := keeper()
		stage.Connect(src, all, stage.MaxDemand(6), stage.MinDemand(2))
		stage.Connect(stage.Where(src, even), some, stage.MaxDemand(6), stage.MinDemand(2))
		byThree := stage.Where(stage.Where(src, even), func(n int) bool { return n%3 == 0 })
		require.Equal(t, src.Name, byThree.OutletName())
		sub := stage.Connect(byThree, few, stage.MaxDemand(1))
		require.NoError(t, stage.Run(t.Context(), src, all, some, few))
		require.Equal(t, upTo(0, 5000), gotAll.get())
		require.Equal(t, doubled(2500), gotSome.get())
		require.Len(t, gotFew.get(), 834)
		require.Equal(t, int64(834), sub.Info().Received, "BAT-09: what is left out takes no position")
	})
}

// DBX-19 and DBX-20: with a selector that keeps nothing the source goes on for ever, and
// still finishes, handles messages and stops in between.
func TestWhereNothingIsKept(t *testing.T) {
	f := func(name string, end func(src *stage.Source[int], stop func()), want error) {
		bubble(t, name, func(t *testing.T) {
			calls, turns := 0, make(chan struct{}, 1)
			src := stage.NewSource(func(ctx context.Context, n int) ([]int, error) {
				if calls++; calls == 100 {
					turns <- struct{}{}
				}
				return make([]int, n), nil
			})
			src.Dispatcher = dispatch.Broadcast[int]()
			src.OnDiscard = func(string, int) {}
			sink, got := keeper()
			stage.Connect(stage.Where[int](src, none), sink, stage.MaxDemand(6), stage.MinDemand(2))
			wait, stop := start(t, src, sink)
			<-turns
			end(src, stop)
			require.ErrorIs(t, wait(), want)
			require.Empty(t, got.get())
			require.Equal(t, int64(6*calls), src.Inspect().Out)
		})
	}
	f("finished", func(src *stage.Source[int], _ func()) { src.Finish() }, nil)
	f("stopped", func(_ *stage.Source[int], stop func()) { stop() }, context.Canceled)
	f("by a message", func(src *stage.Source[int], _ func()) {
		send := stage.Handle(src, func(context.Context, int) ([]int, error) { src.Finish(); return nil, nil })
		_ = send(1)
	}, nil)
}

// DBX-22 and DBX-23: a gate broadcasts what it makes, and what a selector leaves out of
// it is made good by input, which the gate fetches because more is wanted.
func TestWhereOfAGate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		g := stage.NewGate(stage.Map(double))
		g.Dispatcher = dispatch.Broadcast[int]()
		a, gotA := keeper()
		b, gotB := keeper()
		stage.Connect(src, g, stage.MaxDemand(2), stage.MinDemand(1))
		subA := stage.Connect(g, a, stage.Manual())
		subB := stage.Connect(stage.Where(g, func(n int) bool { return n%4 == 0 }), b, stage.Manual())
		wait, _ := start(t, src, g, a, b)
		synctest.Wait()
		require.NoError(t, subA.Ask(3))
		require.NoError(t, subB.Ask(3))
		synctest.Wait()
		require.Equal(t, []int{0, 2, 4}, gotA.get())
		require.Equal(t, []int{0, 4}, gotB.get())
		require.NoError(t, subA.Ask(2))
		synctest.Wait()
		require.Equal(t, []int{0, 2, 4, 6, 8}, gotA.get())
		require.Equal(t, []int{0, 4, 8}, gotB.get())
		require.Equal(t, int64(2), g.Inspect().Subscribers[1].LeftOut)
		subA.Cancel()
		subB.Cancel()
		require.NoError(t, wait())
	})
}

// DPX-14: where the dispatcher does not know selectors, a view is refused; and who has
// subscribed to an outlet has subscribed to all views of it (EDG-02).
func TestWhereIsRefused(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		sink, _ := keeper()
		_, err := stage.Subscribe(t.Context(), stage.Where(idle(), even), sink)
		require.ErrorIs(t, err, dispatch.ErrUnsupported)
		src := broadcasting(0)
		_, err = stage.Subscribe(t.Context(), stage.Where(src, even), sink)
		require.NoError(t, err)
		_, err = stage.Subscribe(t.Context(), stage.Where(src, none), sink)
		require.ErrorIs(t, err, stage.ErrAlreadySubscribed)
		g := stage.NewGate(stage.Map(double))
		_, err = stage.Subscribe(t.Context(), stage.Where(g, even), g)
		require.ErrorIs(t, err, stage.ErrSelfSubscription)
	})
}

// Who attaches to a view by itself, as a node does that publishes one, gets the view; at
// an outlet that cannot select it is refused, and gets nothing that it should not.
func TestAttachToAView(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := broadcasting(6)
		wait, _ := start(t, src)
		r := read(t, stage.Where(src, even))
		require.NoError(t, r.Ask(100, 0))
		synctest.Wait()
		require.Equal(t, []int{0, 2, 4}, r.events())
		require.NoError(t, r.Ack(3))
		require.NoError(t, wait())
		<-stage.Where(src, even).Done()
		_, err := stage.Where[int](&byHand{}, even).Attach(stage.Terms{}, &reader{})
		require.ErrorIs(t, err, dispatch.ErrUnsupported)
		_, err = stage.Where(stage.Named[int](&stage.Names{}, "nobody"), even).Attach(stage.Terms{}, &reader{})
		require.ErrorIs(t, err, stage.ErrNoSuchName)
	})
}

// EDG-04: a selector that panics ends the stage that it runs in: the producer here, and
// the consumer at an outlet elsewhere. What it was about goes back.
func TestSelectorPanics(t *testing.T) {
	boom := func(n int) bool {
		if n == 3 {
			panic("boom")
		}
		return true
	}
	var p *stage.PanicError
	bubble(t, "at the producer", func(t *testing.T) {
		src, innocent := broadcasting(100), stage.NewSink(func(context.Context, []int) error { return nil })
		sink, _ := keeper()
		sub := stage.Connect(src, innocent, stage.Temporary)
		stage.Connect(stage.Where(src, boom), sink, stage.Temporary)
		wait, stop := start(t, src, sink, innocent)
		<-sub.Done()
		require.Equal(t, stage.Failed, sub.Ending().Reason)
		require.Equal(t, "running", sink.Inspect().State)
		stop()
		require.ErrorAs(t, wait(), &p)
	})
	bubble(t, "at the consumer", func(t *testing.T) {
		h := &byHand{}
		sink, got := keeper()
		stage.Connect(stage.Where[int](h, boom), sink, stage.MaxDemand(4), stage.MinDemand(2))
		wait, _ := start(t, sink)
		synctest.Wait()
		h.deliver(1, 2, 3, 4)
		require.ErrorAs(t, wait(), &p)
		require.Equal(t, []int{1, 2}, got.get())
		last := h.cancels.get()[1]
		require.Equal(t, []stage.Returned[int]{{Event: 3, Attempts: 1}, {Event: 4, Attempts: 1}}, last.Rest)
	})
	bubble(t, "in a loop", func(t *testing.T) {
		h := &byHand{}
		go func() {
			synctest.Wait()
			h.deliver(1, 3, 4)
		}()
		require.PanicsWithValue(t, "boom", func() {
			for range stage.All(t.Context(), stage.Where[int](h, boom)) {
			}
		})
		last := h.cancels.get()[1]
		require.Equal(t, int64(1), last.Acked)
		require.Equal(t, []stage.Returned[int]{{Event: 3, Attempts: 1}, {Event: 4}}, last.Rest)
	})
}

// At an outlet elsewhere the selection is made here: what is left out counts as
// processed, in order, and the handler is not called for nothing (BAT-08).
func TestWhereElsewhere(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h := &byHand{}
		var got log[int]
		sink := stage.NewSink(func(ctx context.Context, events []int) error {
			d, _ := stage.Delivery(ctx)
			require.NotEmpty(t, events)
			got.add(int(d.First))
			got.add(events...)
			return nil
		})
		sub := stage.Connect(stage.Where[int](h, even), sink, stage.MaxDemand(6), stage.MinDemand(2))
		wait, _ := start(t, sink)
		synctest.Wait()
		h.deliver(1, 3, 5)
		h.deliver(7, 8)
		synctest.Wait()
		require.Equal(t, []int{4, 8}, got.get())
		require.Equal(t, []int64{6, 5}, h.asks.get(), "one is open when 5 of 6 are processed")
		require.Equal(t, int64(4), sub.Info().LeftOut)
		h.end(stage.Completed, nil)
		require.NoError(t, wait())
		var all []int
		go func() {
			synctest.Wait()
			h.deliver(1, 2, 3, 4)
			h.end(stage.Completed, nil)
		}()
		for e, err := range stage.All(t.Context(), stage.Where[int](h, even)) {
			require.NoError(t, err)
			all = append(all, e)
		}
		require.Equal(t, []int{2, 4}, all)
	})
}

// A selector runs for as long as the subscription does, also over buffers and returns.
func TestWhereOverABuffer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Dispatcher = dispatch.Broadcast[int]()
		require.NoError(t, src.Push(upTo(0, 10)...))
		sink, got := keeper()
		stage.Connect(stage.Where[int](src, even), sink, stage.MaxDemand(2))
		wait, _ := start(t, src, sink)
		synctest.Wait()
		require.NoError(t, src.Push(11, 12))
		src.Finish()
		require.NoError(t, wait())
		require.Equal(t, append(doubled(5), 12), got.get())
		require.True(t, slices.IsSorted(got.get()))
	})
}
