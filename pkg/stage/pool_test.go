package stage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// POL-01, POL-02 and POL-04: as many at once as the concurrency says, and one more for
// each that is done.
func TestPool(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		p := stage.NewPool(2, c.work)
		p.DrainTimeout = time.Second
		src, _ := crewed(t, p)
		time.Sleep(150 * time.Millisecond)
		require.ElementsMatch(t, upTo(0, 2), c.began())
		require.Equal(t, []int64{2}, src.asks.get())
		c.let(well, 1)
		require.ElementsMatch(t, upTo(0, 3), c.began())
		require.Equal(t, []int64{2, 1}, src.asks.get())
		c.let(well, 0, 2)
		require.ElementsMatch(t, upTo(0, 5), c.began())
		require.Equal(t, []int64{2, 1, 1, 1}, src.asks.get())
		require.Equal(t, []string{"0 []", "0 [{2 2}]", "2 []", "3 []"}, src.acks.get())
		require.Equal(t, int64(3), p.Inspect().In)
		require.Equal(t, 2, p.Inspect().Workers)
	})
}

// POL-03, CSV-06 and CSV-15: a worker that fails, in whatever way, is reported once and
// its event given up; its slot is free and the next event runs.
func TestWorkerFails(t *testing.T) {
	for name, how := range map[string]func() error{"error": oops, "panic": boom, "exit": exit} {
		bubble(t, name, func(t *testing.T) {
			c := newCrew(t)
			p := stage.NewPool(1, c.work)
			p.OnFailure, p.DrainTimeout = c.onFailure, time.Second
			src, _ := crewed(t, p)
			c.let(how, 0)
			require.Equal(t, upTo(0, 2), c.began())
			require.Equal(t, []int64{1, 1}, src.asks.get())
			require.Len(t, c.failed.get(), 1)
			require.Equal(t, int64(1), p.Inspect().Failed)
			err := c.failed.get()[0]
			require.ErrorContains(t, err, "0: ")
			switch name {
			case "error":
				require.ErrorIs(t, err, errOops)
			case "panic":
				require.ErrorContains(t, err, "boom")
			case "exit":
				require.ErrorIs(t, err, stage.ErrExited)
			}
			require.Equal(t, "running", p.Inspect().State)
		})
	}
}

// Whatever OnFailure does, the slot is free, and it holds the slot for as long as it
// takes.
func TestTroubleInOnFailure(t *testing.T) {
	for name, how := range map[string]func() error{"panic": boom, "exit": exit} {
		bubble(t, name, func(t *testing.T) {
			c := newCrew(t)
			p := stage.NewPool(1, c.work)
			p.DrainTimeout = time.Second
			p.OnFailure = func(int, error) {
				time.Sleep(time.Minute)
				_ = how()
			}
			crewed(t, p)
			c.let(oops, 0)
			require.Equal(t, upTo(0, 1), c.began())
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, upTo(0, 2), c.began())
		})
	}
}

// What was given up does not go back too: a stage that ends waits for its report.
func TestGivenUpWhileTheStageEnds(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		p := stage.NewPool(2, c.work)
		p.DrainTimeout = time.Millisecond
		p.OnFailure = func(int, error) { time.Sleep(time.Second) }
		src := &byHand{}
		stage.Connect[int](src, p)
		wait, stop := start(t, p)
		synctest.Wait()
		src.deliver(0, 1)
		synctest.Wait()
		c.let(oops, 1)
		stop()
		begin := time.Now()
		require.ErrorIs(t, wait(), stage.ErrDrainTimeout)
		require.Equal(t, time.Second, time.Since(begin))
		cancels := src.cancels.get()
		last := cancels[len(cancels)-1]
		require.Equal(t, []stage.Returned[int]{{Event: 0, Attempts: 1}}, last.Rest)
		require.Equal(t, []stage.Range{{First: 2, Last: 2}}, last.Done)
		i := p.Inspect()
		require.Equal(t, []int64{1, 1, 0}, []int64{i.In, i.Failed, i.Abandoned})
	})
}

// POL-05, CSV-29: the stage does its own asking. What would make its limit void is
// refused, and the stage lives on.
func TestWorkersAskThemselves(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		p := stage.NewPool(1, c.work)
		w := stage.NewWorkers(c.work)
		wait, stop := start(t, p, w)
		synctest.Wait()
		for name, opts := range map[string][]stage.Option{
			"manual": {stage.Manual()}, "max": {stage.MaxDemand(1000)}, "min": {stage.MinDemand(0)}, "unbounded": {stage.Unbounded()},
		} {
			_, err := stage.Subscribe(t.Context(), counter(9), p, opts...)
			require.ErrorIs(t, err, stage.ErrUnsupportedDemandMode, name)
		}
		_, err := stage.Subscribe(t.Context(), counter(9), w, stage.Manual())
		require.ErrorIs(t, err, stage.ErrUnsupportedDemandMode)
		require.Empty(t, p.Inspect().Subscriptions)
		src := &byHand{}
		sub, err := stage.Subscribe[int](t.Context(), src, w, stage.MaxDemand(3), stage.MinDemand(0))
		require.NoError(t, err)
		require.ErrorIs(t, sub.Ask(5), stage.ErrUnsupportedDemandMode)
		require.Equal(t, []int64{3}, src.asks.get())
		src.end(stage.Shutdown, nil)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		declared := stage.NewPool(1, c.work)
		stage.Connect(counter(1), declared, stage.Manual())
		require.ErrorIs(t, declared.Run(t.Context()), stage.ErrUnsupportedDemandMode)
	})
}

// POL-06 and CSV-34: each subscription has its own slots.
func TestSlotsOfSubscriptions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		p := stage.NewPool(2, c.work)
		p.DrainTimeout = time.Second
		a, b := &byHand{}, &byHand{}
		stage.Connect[int](a, p)
		stage.Connect[int](b, p)
		wait, _ := start(t, p)
		synctest.Wait()
		require.Equal(t, []int64{2}, a.asks.get())
		require.Equal(t, []int64{2}, b.asks.get())
		a.deliver(0, 1)
		b.deliver(10, 11)
		synctest.Wait()
		require.Equal(t, 4, p.Count())
		c.let(well, 11)
		require.Equal(t, []int64{2, 1}, b.asks.get())
		require.Equal(t, []int64{2}, a.asks.get())
		a.end(stage.Failed, errOops)
		require.ErrorIs(t, wait(), errOops)
	})
}

// POL-07.
func TestPoolOfAtLeastOne(t *testing.T) {
	for _, n := range []int{0, -3} {
		bubble(t, fmt.Sprint(n), func(t *testing.T) {
			c := newCrew(t)
			p := stage.NewPool(n, c.work)
			p.DrainTimeout = time.Second
			crewed(t, p)
			require.Equal(t, upTo(0, 1), c.began())
		})
	}
}
