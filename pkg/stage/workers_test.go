package stage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

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
