package stage_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// crew is the work of workers whose test says when and how each ends.
type crew struct {
	begun  log[int]
	failed log[error]
	mu     sync.Mutex
	ends   map[int]chan func() error
	// patience is how long those go on that ignore their ctx: until the end of the test.
	patience context.Context
}

func newCrew(t *testing.T) *crew {
	patience, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &crew{ends: map[int]chan func() error{}, patience: patience}
}

func (c *crew) end(event int) chan func() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends[event] == nil {
		c.ends[event] = make(chan func() error)
	}
	return c.ends[event]
}

func (c *crew) work(ctx context.Context, event int) error {
	c.begun.add(event)
	select {
	case how := <-c.end(event):
		return how()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// began are the events whose workers have begun, sorted: workers begin in any order.
func (c *crew) began() []int { return slices.Sorted(slices.Values(c.begun.get())) }

// stubborn is work that ignores its ctx.
func (c *crew) stubborn(_ context.Context, event int) error {
	return c.work(c.patience, event)
}

func (c *crew) onFailure(event int, err error) { c.failed.add(fmt.Errorf("%d: %w", event, err)) }

// ends lets the workers of events end by what how does, one after the other.
func (c *crew) let(how func() error, events ...int) {
	for _, e := range events {
		c.end(e) <- how
		synctest.Wait()
	}
}

func well() error { return nil }
func oops() error { return errOops }
func exit() error { runtime.Goexit(); return nil }
func boom() error { panic("boom") }

// tell is an outlet that notes what it is told.
type tell struct {
	stage.Outlet[int]
	asks log[int64]
	acks log[string]
}

type heard struct {
	stage.Upstream[int]
	*tell
}

func (s *tell) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	up, err := s.Outlet.Attach(terms, r)
	return heard{up, s}, err
}

func (s heard) Ask(n, acked int64, done ...stage.Range) error {
	s.asks.add(n)
	s.acks.add(fmt.Sprint(acked, done))
	return s.Upstream.Ask(n, acked, done...)
}

func (s heard) Ack(acked int64, done ...stage.Range) error {
	s.acks.add(fmt.Sprint(acked, done))
	return s.Upstream.Ack(acked, done...)
}

func (s heard) Cancel(c stage.Cancel[int]) {
	if !c.Drain {
		s.acks.add(fmt.Sprint("back ", c.Rest))
	}
	s.Upstream.Cancel(c)
}

// crewed runs workers of w on a counter, and stops them in the end.
func crewed(t *testing.T, w *stage.Workers[int], opts ...stage.Option) (src *tell, sub *stage.Subscription) {
	t.Helper()
	source := counter(1 << 30)
	src = &tell{Outlet: source}
	sub = stage.Connect[int](src, w, opts...)
	srcWait, stopSrc := start(t, source)
	wait, stop := start(t, w)
	synctest.Wait()
	t.Cleanup(func() {
		stop()
		stopSrc()
		_ = wait()
		_ = srcWait()
	})
	return src, sub
}

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

// CSV-01, CSV-02 and CSV-04: free slots are asked for when they are as many as max minus
// min, exactly those.
func TestSlots(t *testing.T) {
	f := func(most, least int, asks ...int64) {
		bubble(t, fmt.Sprint(most, "/", least), func(t *testing.T) {
			c := newCrew(t)
			w := stage.NewWorkers(c.work)
			w.DrainTimeout = time.Second
			src, _ := crewed(t, w, stage.MaxDemand(most), stage.MinDemand(least))
			got := []int64{0}
			for i := range 4 {
				require.Len(t, c.began(), i+w.Count())
				require.LessOrEqual(t, w.Count(), most)
				before := len(src.asks.get())
				c.let(well, i)
				ask := int64(0)
				if all := src.asks.get(); len(all) > before {
					require.Len(t, all, before+1)
					ask = all[before]
				}
				got = append(got, ask)
			}
			require.Equal(t, asks, got[1:])
			require.Equal(t, int64(most), src.asks.get()[0])
		})
	}
	f(2, 0, 0, 2, 0, 2)
	f(3, 2, 1, 1, 1, 1)
	f(4, 3, 1, 1, 1, 1)
	f(4, 1, 0, 0, 3, 0)
	f(4, 0, 0, 0, 0, 4)
	f(1, 0, 1, 1, 1, 1)
}

// CSV-05: a slot whose event has not arrived is not free.
func TestUnfilledSlots(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		src := &byHand{}
		stage.Connect[int](src, w, stage.MaxDemand(4), stage.MinDemand(0))
		wait, _ := start(t, w)
		synctest.Wait()
		src.deliver(0, 1, 2)
		synctest.Wait()
		c.let(well, 0, 1, 2)
		require.Equal(t, []int64{4}, src.asks.get())
		src.deliver(3)
		synctest.Wait()
		c.let(well, 3)
		require.Equal(t, []int64{4, 4}, src.asks.get())
		src.end(stage.Completed, nil)
		require.NoError(t, wait())
	})
}

// CSV-07 and CSV-08: one that fails is started again with its event, in its slot, under
// its ID, and nothing is asked for; when it ends well, its slot is free. Meanwhile its
// ctx says how often the event was tried.
func TestRestartOfWorkers(t *testing.T) {
	for name, how := range map[string]func() error{"error": oops, "panic": boom, "exit": exit} {
		bubble(t, name, func(t *testing.T) {
			c := newCrew(t)
			var tried log[int]
			w := stage.NewWorkers(func(ctx context.Context, event int) error {
				d, ok := stage.Delivery(ctx)
				require.True(t, ok)
				require.Equal(t, int64(event+1), d.First)
				tried.add(d.Attempts)
				return c.work(ctx, event)
			})
			w.Restart, w.OnFailure, w.DrainTimeout = stage.OnFailure, c.onFailure, time.Second
			src, sub := crewed(t, w, stage.MaxDemand(1))
			c.let(how, 0, 0)
			require.Equal(t, []int{0, 0, 0}, c.began())
			require.Equal(t, []int64{1}, src.asks.get())
			require.Equal(t, []stage.WorkerInfo[int]{{ID: 1, Event: 0, Status: stage.WorkerRunning}}, w.Workers())
			require.Equal(t, "in-flight", sub.Info().State)
			c.let(well, 0)
			require.Equal(t, []int{0, 0, 0, 1}, c.began())
			require.Equal(t, []int{0, 1, 2, 0}, tried.get())
			require.Equal(t, []int64{1, 1}, src.asks.get())
			require.Empty(t, c.failed.get())
			require.Zero(t, w.Inspect().Failed)
		})
	}
}

// CSV-12, CSV-13 and CSV-14: restarts of all workers count together, each attempt counts,
// and with one too many the stage fails. The events that were not finished go back,
// marked; none is given up.
func TestTooManyRestarts(t *testing.T) {
	f := func(name string, tolerance stage.Tolerance, failures []int, rest ...stage.Returned[int]) {
		bubble(t, name, func(t *testing.T) {
			c := newCrew(t)
			w := stage.NewWorkers(c.work)
			w.Restart, w.Tolerance, w.OnFailure = stage.OnFailure, tolerance, c.onFailure
			src := &byHand{}
			sub := stage.Connect[int](src, w, stage.MaxDemand(4), stage.MinDemand(0))
			wait, _ := start(t, w)
			synctest.Wait()
			src.deliver(0, 1, 2, 3)
			synctest.Wait()
			for _, e := range failures {
				require.Equal(t, "running", w.Inspect().State)
				c.let(oops, e)
			}
			err := wait()
			require.ErrorIs(t, err, stage.ErrTooManyRestarts)
			require.ErrorIs(t, err, errOops)
			require.Equal(t, stage.Cancelled, sub.Ending().Reason)
			cancels := src.cancels.get()
			require.Equal(t, rest, cancels[len(cancels)-1].Rest)
			require.Empty(t, c.failed.get())
			require.Zero(t, w.Count())
		})
	}
	f("none", stage.Tolerance{Restarts: -1}, []int{1},
		stage.Returned[int]{Event: 0, Attempts: 1}, stage.Returned[int]{Event: 1, Attempts: 1},
		stage.Returned[int]{Event: 2, Attempts: 1}, stage.Returned[int]{Event: 3, Attempts: 1})
	f("by default, of several", stage.Tolerance{}, []int{0, 1, 2, 3},
		stage.Returned[int]{Event: 0, Attempts: 1}, stage.Returned[int]{Event: 1, Attempts: 1},
		stage.Returned[int]{Event: 2, Attempts: 1}, stage.Returned[int]{Event: 3, Attempts: 1})
	f("by default, of one", stage.Tolerance{}, []int{2, 2, 2, 2},
		stage.Returned[int]{Event: 0, Attempts: 1}, stage.Returned[int]{Event: 1, Attempts: 1},
		stage.Returned[int]{Event: 2, Attempts: 1}, stage.Returned[int]{Event: 3, Attempts: 1})
}

// CSV-16: several that fail at once free their slots together.
func TestManyWorkersFailAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var count log[int]
		w := stage.NewWorkers(func(ctx context.Context, event int) error {
			count.add(event)
			if event < 8 {
				return errOops
			}
			<-ctx.Done()
			return ctx.Err()
		})
		w.DrainTimeout = time.Second
		src, _ := crewed(t, w, stage.MaxDemand(4), stage.MinDemand(0))
		require.ElementsMatch(t, upTo(0, 12), count.get())
		require.Equal(t, []int64{4, 4, 4}, src.asks.get())
		require.Equal(t, int64(8), w.Inspect().Failed)
	})
}

// CSV-17: no end is missed, however soon it comes. Nothing is lost and all is told.
func TestWorkersThatEndAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10_000)
		var got log[int]
		w := stage.NewPool(3, func(_ context.Context, event int) error { got.add(event); return nil })
		stage.Connect(src, w)
		require.NoError(t, stage.Run(t.Context(), src, w))
		require.ElementsMatch(t, upTo(0, 10_000), got.get())
		require.Empty(t, src.Inspect().Discarded)
		require.Equal(t, int64(10_000), w.Inspect().In)
	})
}

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

// AtMostOnce: what workers had not finished is gone and counted; what they had finished,
// in whatever order, is not.
func TestWorkersAtMostOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		w.Restart, w.Tolerance = stage.OnFailure, stage.Tolerance{Restarts: -1}
		src := counter(1 << 30)
		stage.Connect(src, w, stage.MaxDemand(10), stage.MinDemand(0), stage.AtMostOnce())
		srcWait, stopSrc := start(t, src)
		wait, _ := start(t, w)
		synctest.Wait()
		c.let(well, 0, 3, 4, 9)
		c.let(oops, 5)
		require.ErrorIs(t, wait(), stage.ErrTooManyRestarts)
		require.Equal(t, map[string]int64{stage.DiscardAtMostOnce: 6}, src.Inspect().Discarded)
		stopSrc()
		_ = srcWait()
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

// What a selector on this side does not keep is no work, and counts as processed.
func TestSelectorsOfWorkers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		src := &byHand{}
		odd := stage.Where[int](src, func(i int) bool { return i%2 == 1 || 1/i < 0 })
		sub := stage.Connect(odd, w, stage.MaxDemand(6), stage.MinDemand(4))
		wait, _ := start(t, w)
		synctest.Wait()
		src.deliver(1, 2)
		src.deliver(3, 4)
		synctest.Wait()
		require.Equal(t, 2, w.Count())
		require.Equal(t, []int64{6, 2}, src.asks.get())
		require.Equal(t, int64(2), sub.Info().LeftOut)
		src.deliver(5, 0)
		require.ErrorContains(t, wait(), "divide by zero")
		last := src.cancels.get()[1]
		require.Equal(t, []int{1, 3, 5, 0}, []int{last.Rest[0].Event, last.Rest[1].Event, last.Rest[2].Event, last.Rest[3].Event})
	})
}

// A storm: workers fail, panic, are terminated, stages of them stop and others come.
// Every event is finished, or given up by name.
func TestStormOfWorkers(t *testing.T) {
	for name, restart := range map[string]stage.Restart{"give up": stage.Never, "restart": stage.OnFailure} {
		bubble(t, name, func(t *testing.T) {
			const total = 3000
			src := counter(total)
			src.Buffer = stage.Unlimited()
			srcWait, _ := start(t, src)
			var mu sync.Mutex
			seen, lost := map[int]int{}, map[int]int{}
			for round := 0; !isDone(src.Done()); round++ {
				require.Less(t, round, 5000)
				w := stage.NewWorkers(func(ctx context.Context, event int) error {
					time.Sleep(time.Duration(event%7) * time.Millisecond)
					switch d, _ := stage.Delivery(ctx); {
					case ctx.Err() != nil:
						return ctx.Err()
					case event%50 == 3 && d.Attempts < 2:
						return errOops
					case event%90 == 7 && d.Attempts < 2:
						panic("boom")
					}
					mu.Lock()
					defer mu.Unlock()
					seen[event]++
					return nil
				})
				w.Restart = restart
				w.OnFailure = func(event int, _ error) {
					mu.Lock()
					defer mu.Unlock()
					lost[event]++
				}
				stage.Connect(src, w, stage.MaxDemand(1+round%40))
				w.DrainTimeout = time.Duration(round%3) * 3 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+round%20)*time.Millisecond)
				go func() {
					for _, one := range w.Workers() {
						_ = w.Terminate(ctx, one.ID)
						w.Inspect()
					}
				}()
				_ = w.Run(ctx)
				cancel()
			}
			require.NoError(t, srcWait())
			require.Empty(t, src.Inspect().Discarded)
			synctest.Wait()
			for e := range total {
				require.Equal(t, 1, seen[e]+lost[e], "event %d: finished %d times, lost %d times", e, seen[e], lost[e])
			}
		})
	}
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// CSV-30 and EDG-02: workers subscribe by name, and the same outlet is the same by name
// and directly.
func TestWorkersByName(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		src := counter(1 << 30)
		src.Name = "numbers"
		require.NoError(t, stage.Register(&names, src))
		c := newCrew(t)
		w := stage.NewWorkers(c.work)
		w.DrainTimeout = time.Second
		stage.Connect(stage.Named[int](&names, "numbers"), w, stage.MaxDemand(1))
		wait, stop := start(t, src, w)
		synctest.Wait()
		require.Equal(t, []int{1, 1}, []int{w.Count(), len(w.Workers())})
		_, err := stage.Subscribe(t.Context(), src, w)
		require.ErrorIs(t, err, stage.ErrAlreadySubscribed)
		stop()
		require.Error(t, wait())
	})
}

// A broadcast's workers each get everything.
func TestBroadcastToWorkers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(500)
		src.Dispatcher = dispatch.Broadcast[int]()
		var a, b log[int]
		one := stage.NewPool(3, func(_ context.Context, e int) error { a.add(e); return nil })
		two := stage.NewWorkers(func(_ context.Context, e int) error { b.add(e); return errors.New("never mind") })
		stage.Connect(src, one)
		stage.Connect(src, two, stage.MaxDemand(50))
		require.NoError(t, stage.Run(t.Context(), src, one, two))
		require.ElementsMatch(t, upTo(0, 500), a.get())
		require.ElementsMatch(t, upTo(0, 500), b.get())
	})
}
