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

// A stage that was connected and not run is found out after the subscription's timeout,
// by its name, whoever waits for it.
func TestConnectedAndNotRun(t *testing.T) {
	f := func(name string, after time.Duration, to func(src stage.Outlet[int], opts ...stage.Option) stage.Runner, opts ...stage.Option) {
		bubble(t, name, func(t *testing.T) {
			src := counter(10)
			src.Name = "forgotten"
			consumer := to(src, opts...)
			began := time.Now()
			err := stage.Run(t.Context(), consumer)
			require.ErrorIs(t, err, stage.ErrNotRun)
			require.ErrorContains(t, err, `"forgotten"`)
			require.Equal(t, after, time.Since(began))
		})
	}
	sink := func(src stage.Outlet[int], opts ...stage.Option) stage.Runner {
		sink, _ := keeper()
		stage.Connect(src, sink, opts...)
		return sink
	}
	f("sink", 5*time.Second, sink)
	f("whatever its mode", 5*time.Second, sink, stage.Temporary)
	f("as long as it may take", time.Hour, sink, stage.Timeout(time.Hour))
	f("view", 5*time.Second, func(src stage.Outlet[int], opts ...stage.Option) stage.Runner {
		src.(*stage.Source[int]).Dispatcher = dispatch.Broadcast[int]()
		return sink(stage.Where(src, func(int) bool { return true }), opts...)
	})
	f("gate and sink", 5*time.Second, func(src stage.Outlet[int], opts ...stage.Option) stage.Runner {
		g := stage.NewGate(stage.Map(double))
		stage.Connect(src, g, opts...)
		return stage.Group(g, sink(g))
	})
	f("workers", 5*time.Second, func(src stage.Outlet[int], opts ...stage.Option) stage.Runner {
		w := stage.NewWorkers(func(context.Context, int) error { return nil })
		stage.Connect(src, w, opts...)
		return w
	})
}

// One that is run a little later, elsewhere, is waited for, and one that was
// cancelled meanwhile is not.
func TestConnectedAndRunLater(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, never := counter(10), counter(10)
		sink, got := keeper()
		stage.Connect(src, sink)
		sub := stage.Connect(never, sink, stage.Temporary)
		wait, _ := start(t, sink)
		synctest.Wait()
		require.True(t, sub.Cancel())
		time.Sleep(4 * time.Second)
		require.NoError(t, src.Run(t.Context()))
		require.NoError(t, wait())
		require.Equal(t, upTo(0, 10), got.get())
	})
}

// One that is subscribed to while the stages run, or before they do, is found out too: the
// timeout counts from when both the subscription and its stage are there.
func TestSubscribedAndNotRun(t *testing.T) {
	f := func(name string, before, later time.Duration) {
		bubble(t, name, func(t *testing.T) {
			src := counter(10)
			src.Name = "forgotten"
			sink, _ := keeper()
			subscribe := func() {
				_, err := stage.Subscribe(t.Context(), src, sink, stage.Temporary, stage.Timeout(time.Minute))
				require.NoError(t, err)
			}
			if before > 0 {
				subscribe()
				time.Sleep(before)
			}
			wait, _ := start(t, sink)
			began := time.Now()
			if before == 0 {
				time.Sleep(later)
				subscribe()
			}
			err := wait()
			require.ErrorIs(t, err, stage.ErrNotRun)
			require.ErrorContains(t, err, `"forgotten"`)
			require.Equal(t, time.Minute+later, time.Since(began))
		})
	}
	f("while it runs", 0, time.Hour)
	f("before it runs", time.Hour, 0)
}

// One that is run in time is waited for, and one that is cancelled is not.
func TestSubscribedAndRunLater(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, never := counter(10), counter(10)
		sink, got := keeper()
		stage.Connect(src, sink)
		wait, _ := start(t, sink)
		sub, err := stage.Subscribe(t.Context(), never, sink, stage.Temporary, stage.Timeout(time.Second))
		require.NoError(t, err)
		require.True(t, sub.Cancel())
		time.Sleep(4 * time.Second)
		require.NoError(t, src.Run(t.Context()))
		require.NoError(t, wait())
		require.Equal(t, upTo(0, 10), got.get())
	})
}

// A manual subscription that nobody asks on says so.
func TestNobodyAsks(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		sink, _ := keeper()
		sub := stage.Connect(src, sink, stage.Manual())
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.Equal(t, "no-demand", sub.Info().State)
		require.Equal(t, "no-demand", src.Inspect().Subscribers[0].State)
		require.NoError(t, sub.Ask(4))
		synctest.Wait()
		require.Equal(t, "no-demand", sub.Info().State)
		require.Equal(t, int64(4), sub.Info().Acked)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Stages that did not come from their constructors are refused, and nothing panics.
func TestStagesAreMade(t *testing.T) {
	runners := []stage.Runner{&stage.Source[int]{}, &stage.Gate[int, int]{}, &stage.Sink[int]{}, &stage.Workers[int]{}}
	for _, r := range runners {
		require.ErrorIs(t, r.Run(t.Context()), stage.ErrNotMade)
		r.(stage.Inspector).Inspect()
	}
	for _, in := range []stage.Inlet[int]{&stage.Gate[int, int]{}, &stage.Sink[int]{}, &stage.Workers[int]{}} {
		require.ErrorIs(t, stage.Connect(counter(1), in).Ready(t.Context()), stage.ErrNotMade)
		_, err := stage.Subscribe(t.Context(), counter(1), in)
		require.ErrorIs(t, err, stage.ErrNotMade)
	}
	for _, out := range []stage.Outlet[int]{&stage.Source[int]{}, &stage.Gate[int, int]{}} {
		sink, _ := keeper()
		sub := stage.Connect(out, sink)
		require.ErrorIs(t, stage.Run(t.Context(), sink), stage.ErrNotMade)
		require.ErrorIs(t, sub.Ready(t.Context()), stage.ErrNotMade)
		_, err := stage.Subscribe(t.Context(), out, stage.NewSink(func(context.Context, []int) error { return nil }))
		require.ErrorIs(t, err, stage.ErrNotMade)
	}
	src := &stage.Source[int]{}
	src.Finish()
	src.Forward()
	for _, out := range []interface {
		stage.Outlet[int]
		stage.Tapper[int]
	}{src, &stage.Gate[int, int]{}} {
		out.Tap(func([]int) {})()
		<-out.Done() // nothing comes out of it, ever
	}
	require.ErrorIs(t, src.Push(1), stage.ErrNotMade)
	_, err := src.PushWait(t.Context(), 1)
	require.ErrorIs(t, err, stage.ErrNotMade)
	none := func(context.Context, int) ([]int, error) { return nil, nil }
	require.ErrorIs(t, stage.Handle(src, none)(1), stage.ErrNotMade)
	require.ErrorIs(t, stage.Handle(&stage.Gate[int, int]{}, none)(1), stage.ErrNotMade)
	require.ErrorIs(t, stage.HandleSink(&stage.Sink[int]{}, func(context.Context, int) error { return nil })(1), stage.ErrNotMade)
}

// lending is an outlet whose events are valid until they are processed.
type lending struct{ stage.Outlet[int] }

func (lending) Lends() bool { return true }

// Events that are lent go to a sink that is done with them when its handler is, and to
// nobody who may keep them or pass them on.
// Row LNT-03.
func TestLentEventsHaveToStay(t *testing.T) {
	f := func(name string, to stage.Inlet[int], want error) {
		t.Run(name, func(t *testing.T) {
			src := counter(10)
			wait, _ := start(t, src)
			_, err := stage.Subscribe(t.Context(), lending{src}, to)
			require.ErrorIs(t, err, want)
			if want == nil {
				require.NoError(t, stage.Run(t.Context(), to.(stage.Runner)))
				require.NoError(t, wait())
			}
		})
	}
	sink, _ := keeper()
	f("sink", sink, nil)
	letters := stage.NewSource[stage.DeadLetter[int]](nil)
	careful, _ := keeper()
	careful.DeadLetters, careful.OnError = letters, stage.ErrorPolicy{Then: stage.ToDeadLetters}
	f("sink with dead letters", careful, stage.ErrLent)
	f("gate", stage.NewGate(stage.Map(double)), stage.ErrLent)
	f("workers", stage.NewWorkers(func(context.Context, int) error { return nil }), stage.ErrLent)
	for _, err := range stage.All(t.Context(), stage.Outlet[int](lending{counter(10)})) {
		require.ErrorIs(t, err, stage.ErrLent)
	}
}
