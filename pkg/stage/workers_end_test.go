package stage_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// CSV-18, CSV-19, CSV-20 and CSV-23: workers are counted and listed, and one can be ended,
// also by several at once. It is not started again, its event is given up by name, and
// its slot is free.
func TestTerminate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		slow := make(chan struct{})
		w := stage.NewWorkers(func(ctx context.Context, event int) error {
			err := c.work(ctx, event)
			if err != nil {
				<-slow
			}
			return err
		})
		w.Restart, w.OnFailure, w.DrainTimeout = stage.OnFailure, c.onFailure, time.Second
		_, _ = crewed(t, w, stage.MaxDemand(2), stage.MinDemand(1))
		require.Equal(t, 2, w.Count())
		require.Equal(t, []stage.WorkerInfo[int]{{1, 0, stage.WorkerRunning}, {2, 1, stage.WorkerRunning}}, w.Workers())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { require.NoError(t, w.Terminate(t.Context(), 1)) })
		}
		synctest.Wait()
		require.Equal(t, 2, w.Count(), "one that is told to end counts")
		require.Equal(t, []stage.WorkerInfo[int]{{1, 0, stage.WorkerTerminating}, {2, 1, stage.WorkerRunning}}, w.Workers())
		impatient, cancel := context.WithCancelCause(t.Context())
		cancel(errOops)
		require.ErrorIs(t, w.Terminate(impatient, 1), errOops)
		close(slow)
		wg.Wait()
		synctest.Wait()
		require.Equal(t, []stage.WorkerInfo[int]{{2, 1, stage.WorkerRunning}, {3, 2, stage.WorkerRunning}}, w.Workers())
		require.Equal(t, []int{0, 1, 2}, c.began())
		require.ErrorIs(t, w.Terminate(t.Context(), 1), stage.ErrNoWorker)
		require.ErrorIs(t, w.Terminate(t.Context(), 99), stage.ErrNoWorker)
		require.Len(t, c.failed.get(), 1)
		require.ErrorIs(t, c.failed.get()[0], stage.ErrTerminated)
		i := w.Inspect()
		require.Equal(t, []int64{1, 0}, []int64{i.Failed, i.Abandoned})
	})
}

// One that ends well although it is told to end has not failed.
func TestTerminateEndsWell(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		w := stage.NewWorkers(func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
		w.OnFailure = func(int, error) { t.Error("it has not failed") }
		w.DrainTimeout = time.Second
		crewed(t, w, stage.MaxDemand(1))
		require.NoError(t, w.Terminate(t.Context(), 1))
		synctest.Wait()
		require.Equal(t, int64(2), w.Workers()[0].ID)
	})
}

// CSV-21 and POL-09: one that ignores its ctx past the shutdown timeout is abandoned and
// counted, and its slot is free, also when nobody waits any more. When it ends after all,
// nothing happens.
func TestAbandonedWorkers(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second, -1: 0} {
		bubble(t, timeout.String(), func(t *testing.T) {
			c := newCrew(t)
			w := stage.NewWorkers(c.stubborn)
			w.ShutdownTimeout, w.OnFailure, w.DrainTimeout = timeout, c.onFailure, time.Millisecond
			// When the stage has ended without them, they may end too.
			t.Cleanup(func() { c.end(1) <- well; c.end(2) <- well })
			src, _ := crewed(t, w, stage.MaxDemand(2), stage.MinDemand(1))
			impatient, cancel := context.WithTimeoutCause(t.Context(), want/2, errOops)
			defer cancel()
			if err := w.Terminate(impatient, 1); want > 0 {
				require.ErrorIs(t, err, errOops)
				time.Sleep(want - want/2 - 1)
				require.Equal(t, upTo(0, 2), c.began())
				time.Sleep(time.Nanosecond)
			}
			synctest.Wait()
			require.Equal(t, upTo(0, 3), c.began())
			require.ErrorIs(t, w.Terminate(t.Context(), 1), stage.ErrNoWorker)
			i := w.Inspect()
			require.Equal(t, []int64{1, 1, 1}, []int64{i.Abandoned, i.Failed, i.In})
			require.Len(t, c.failed.get(), 1)
			require.ErrorIs(t, c.failed.get()[0], stage.ErrTerminated)
			asks := len(src.asks.get())
			c.let(oops, 0)
			require.Len(t, src.asks.get(), asks)
			require.Len(t, c.failed.get(), 1)
			require.Equal(t, 2, w.Count())
		})
	}
}

// CSV-24: of a stage that has ended there is nothing to ask.
func TestWorkersThatHaveEnded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(3)
		w := stage.NewWorkers(func(context.Context, int) error { return nil })
		stage.Connect(src, w)
		require.NoError(t, stage.Run(t.Context(), src, w))
		require.Zero(t, w.Count())
		require.Empty(t, w.Workers())
		require.ErrorIs(t, w.Terminate(t.Context(), 1), stage.ErrNoWorker)
		require.ErrorIs(t, w.Run(t.Context()), stage.ErrAlreadyRun)
		<-w.Ended()
	})
}

// CSV-25: workers go on when their subscription ends, and free nothing then. It is over
// when they have ended, and then its cancel mode applies.
func TestSubscriptionOfWorkersEnds(t *testing.T) {
	f := func(name string, reason stage.Reason, mode stage.CancelMode, want error, lives bool) {
		bubble(t, name, func(t *testing.T) {
			c := newCrew(t)
			w := stage.NewWorkers(c.work)
			src := &byHand{}
			sub := stage.Connect[int](src, w, stage.MaxDemand(2), stage.MinDemand(1), mode)
			wait, stop := start(t, w)
			synctest.Wait()
			src.deliver(7, 8)
			synctest.Wait()
			src.end(reason, want)
			synctest.Wait()
			require.Equal(t, 2, w.Count())
			c.let(well, 8)
			require.Equal(t, "draining", sub.Info().State)
			require.Zero(t, sub.Ending().Reason)
			c.let(well, 7)
			<-sub.Done()
			require.Equal(t, []int64{2}, src.asks.get())
			require.Equal(t, []int64{0, 0, 2}, src.acked.get(), "and all is told")
			if lives {
				require.Equal(t, "running", w.Inspect().State)
				stop()
				require.ErrorIs(t, wait(), context.Canceled)
			} else {
				require.NoError(t, wait())
			}
		})
	}
	f("permanent", stage.Completed, stage.Permanent, nil, false)
	f("transient", stage.Shutdown, stage.Transient, nil, true)
	f("temporary", stage.Completed, stage.Temporary, nil, true)
	f("temporary, failed", stage.Failed, stage.Temporary, errOops, true)
}

// CSV-25, from the consumer's side.
func TestCancelOfWorkers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		w.DrainTimeout = time.Second
		src, sub := crewed(t, w, stage.MaxDemand(3), stage.MinDemand(2), stage.Temporary)
		require.True(t, sub.Cancel())
		synctest.Wait()
		require.Zero(t, sub.Ending().Reason)
		c.let(well, 1, 0, 2)
		<-sub.Done()
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
		require.Equal(t, []int64{3}, src.asks.get())
		require.Equal(t, upTo(0, 3), c.began())
		// SUP-06: of what is gone nothing can be asked, and it says so.
		require.ErrorIs(t, sub.Ask(1), stage.ErrEnded)
		require.False(t, sub.Cancel())
	})
}

// CSV-26 and CSV-27: a stage that fails with its producer tells all workers at once to
// end, with one timeout for all of them, and abandons who takes longer.
func TestProducerOfWorkersFails(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(func(ctx context.Context, event int) error {
			c.begun.add(event)
			switch {
			case event < 5:
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				return ctx.Err()
			case event == 5:
				return c.stubborn(ctx, event)
			}
			<-ctx.Done()
			return fmt.Errorf("closing: %w", context.Cause(ctx))
		})
		w.OnFailure = c.onFailure
		src := &byHand{}
		stage.Connect[int](src, w, stage.MaxDemand(8))
		wait, _ := start(t, w)
		synctest.Wait()
		src.deliver(upTo(0, 8)...)
		synctest.Wait()
		begin := time.Now()
		src.end(stage.Failed, errOops)
		require.ErrorIs(t, wait(), errOops)
		require.Equal(t, 5*time.Second, time.Since(begin))
		i := w.Inspect()
		require.Equal(t, "failed", i.State)
		require.Equal(t, []int64{0, 1, 0}, []int64{int64(i.Workers), i.Abandoned, i.Failed})
		require.Empty(t, c.failed.get(), "those who were told to end have not failed")
		c.let(well, 5) // POL-08: its end goes nowhere
	})
}

// CSV-28: a stage that is stopped lets its workers finish, for the drain timeout. What
// they have not finished by then goes back, marked, and what they have is not repeated.
func TestStopOfWorkers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		w.DrainTimeout, w.Restart = time.Minute, stage.OnFailure
		src := counter(1 << 30)
		srcWait, stopSrc := start(t, src)
		stage.Connect(src, w, stage.MaxDemand(4), stage.MinDemand(3))
		wait, stop := start(t, w)
		synctest.Wait()
		stop()
		synctest.Wait()
		c.let(well, 1)
		c.let(oops, 2) // it is started again: there is time
		require.Equal(t, []int{0, 1, 2, 2, 3}, c.began())
		c.let(well, 3)
		begin := time.Now()
		require.ErrorIs(t, wait(), stage.ErrDrainTimeout)
		require.Equal(t, time.Minute, time.Since(begin))
		other := read(t, src)
		require.NoError(t, other.Ask(3, 0))
		synctest.Wait()
		require.Equal(t, []stage.Batch[int]{
			{Events: []int{0}, Redelivered: true, Attempts: 1},
			{Events: []int{2}, Redelivered: true, Attempts: 1},
			{Events: []int{4}},
		}, other.batches.get())
		require.NoError(t, other.Ack(3))
		stopSrc()
		require.ErrorIs(t, srcWait(), context.Canceled)
		require.Empty(t, src.Inspect().Discarded)
	})
}

// In one Run, everything that was sent is handled before the workers' stage ends.
func TestStopOfWorkersAndSource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		var done log[int]
		w := stage.NewPool(8, func(_ context.Context, event int) error {
			time.Sleep(time.Duration(event%5) * time.Millisecond)
			done.add(event)
			return nil
		})
		stage.Connect(src, w)
		wait, stop := start(t, src, w)
		time.Sleep(time.Second)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		i := src.Inspect()
		require.Empty(t, i.Discarded)
		require.ElementsMatch(t, upTo(0, int(i.Out)), done.get())
	})
}

// Stop of a worker ends the stage well: what others have goes back.
func TestStopOfAWorker(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		w.Restart = stage.OnFailure
		src := &byHand{}
		stage.Connect[int](src, w, stage.MaxDemand(3))
		wait, _ := start(t, w)
		synctest.Wait()
		src.deliver(0, 1, 2)
		synctest.Wait()
		c.let(func() error { return stage.Stop }, 1)
		require.NoError(t, wait())
		last := src.cancels.get()[1]
		require.Equal(t, []stage.Returned[int]{{Event: 0, Attempts: 1}, {Event: 2, Attempts: 1}}, last.Rest)
		require.Equal(t, []stage.Range{{First: 2, Last: 2}}, last.Done)
		require.Equal(t, "ended", w.Inspect().State)
	})
}
