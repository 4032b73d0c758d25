package stage_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// poisoned is a sink that cannot handle some events, and keeps the others.
func poisoned(fails func(event int) error) (*stage.Sink[int], *log[int]) {
	var got log[int]
	return stage.NewSink(func(_ context.Context, events []int) error {
		for _, e := range events {
			if err := fails(e); err != nil {
				return err
			}
		}
		got.add(events...)
		return nil
	}), &got
}

// only fails for one event.
func only(poison int) func(int) error {
	return func(e int) error {
		if e == poison {
			return errOops
		}
		return nil
	}
}

// A poison event among a million does not stop the others, and is the only one to go.
func TestSkip(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const all = 1_000_000
		src := counter(all)
		k, got := poisoned(only(777_777))
		k.OnError = stage.ErrorPolicy{Then: stage.Skip}
		var told log[string]
		k.OnDiscard = func(reason string, count int) { told.add(reason); require.Equal(t, 1, count) }
		stage.Connect(src, k)
		require.NoError(t, stage.Run(t.Context(), src, k))
		require.Len(t, got.get(), all-1)
		require.True(t, slices.IsSorted(got.get()))
		require.NotContains(t, got.get(), 777_777)
		require.Equal(t, []string{stage.DiscardHandler}, told.get())
		require.Equal(t, map[string]int64{stage.DiscardHandler: 1}, k.Inspect().Discarded)
		require.EqualValues(t, all, k.Inspect().In)
	})
}

// What is dead-lettered says all there is to say; a panic is an error under every policy;
// the outlet ends behind the stage that sends to it.
func TestDeadLetters(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(20)
		k, got := poisoned(func(e int) error {
			if e == 7 {
				panic("boom")
			}
			return only(13)(e)
		})
		k.Name = "strict"
		letters := stage.NewDeadLetters[int]()
		k.OnError, k.DeadLetters = stage.ErrorPolicy{Then: stage.ToDeadLetters}, letters
		var dead log[stage.DeadLetter[int]]
		reader := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[int]) error { dead.add(batch...); return nil })
		src.Name = "numbers"
		stage.Connect(src, k)
		stage.Connect(letters, reader)
		require.NoError(t, stage.Run(t.Context(), src, k, letters, reader))
		require.Len(t, got.get(), 18)
		require.Equal(t, []stage.DeadLetter[int]{
			{Event: 7, Attempts: 2, Stage: "strict", Outlet: "numbers", Reason: stage.DiscardHandler, Err: "panic: boom"},
			{Event: 13, Attempts: 2, Stage: "strict", Outlet: "numbers", Reason: stage.DiscardHandler, Err: "oops"},
		}, dead.get())
		require.EqualValues(t, 2, k.Inspect().DeadLettered)
		require.Empty(t, k.Inspect().Discarded)
	})
}

// Who sends to dead letters never waits, and what there is no room for is counted.
func TestDeadLettersAreBounded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		k, _ := poisoned(func(int) error { return errOops })
		letters := stage.NewDeadLetters[int]()
		letters.Buffer = stage.KeepLast(4)
		k.OnError, k.DeadLetters = stage.ErrorPolicy{Then: stage.ToDeadLetters}, letters
		stage.Connect(src, k)
		require.NoError(t, stage.Run(t.Context(), src, k))
		require.EqualValues(t, 10, k.Inspect().DeadLettered)
		require.Equal(t, map[string]int64{stage.DiscardOverflow: 6}, letters.Inspect().Discarded)
		require.Equal(t, 4, letters.Inspect().Buffered)
	})
}

// Without an outlet to send to, the stage does not begin.
func TestDeadLettersAreNamed(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		k, _ := poisoned(only(0))
		k.OnError.Then = stage.ToDeadLetters
		require.ErrorContains(t, stage.Run(t.Context(), k), "no outlet is named")
	})
}

// Stopped together, dead letters end behind the stages that send to them, which still
// handle what is on its way. When those take too long, they do not wait for ever.
func TestDeadLettersStopLast(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(math.MaxInt)
		letters := stage.NewDeadLetters[int]()
		k := stage.NewSink(func(context.Context, []int) error { time.Sleep(time.Second); return errOops })
		k.OnError.Then, k.DeadLetters = stage.ToDeadLetters, letters
		var dead log[stage.DeadLetter[int]]
		reader := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[int]) error { dead.add(batch...); return nil })
		stage.Connect(src, k, stage.MaxDemand(4), stage.MinDemand(2))
		sub := stage.Connect(letters, reader)
		wait, stop := start(t, src, k, letters, reader)
		synctest.Wait()
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.Empty(t, k.Inspect().Discarded)
		require.Positive(t, k.Inspect().DeadLettered)
		require.EqualValues(t, k.Inspect().DeadLettered, len(dead.get()))
		require.Equal(t, stage.Shutdown, sub.Ending().Reason)
	})
	bubble(t, "too long", func(t *testing.T) {
		src := counter(math.MaxInt)
		letters := stage.NewDeadLetters[int]()
		letters.DrainTimeout = time.Second
		k := stage.NewSink(func(context.Context, []int) error { time.Sleep(5 * time.Second); return errOops })
		k.OnError.Then, k.DeadLetters = stage.ToDeadLetters, letters
		var reasons log[string]
		k.OnDiscard = func(reason string, _ int) { reasons.add(reason) }
		stage.Connect(src, k, stage.MaxDemand(1))
		stopped := make(chan time.Duration, 1)
		wait, stop := start(t, src, k, letters)
		synctest.Wait()
		begin := time.Now()
		go func() { <-letters.Ended(); stopped <- time.Since(begin) }()
		stop()
		require.Equal(t, time.Second, <-stopped)
		require.ErrorIs(t, wait(), context.Canceled)
		require.Equal(t, []string{stage.DiscardHandler}, slices.Compact(reasons.get()))
	})
}

// Stages of different events send to one outlet of a third kind, which ends behind the
// last of them. A letter that cannot be turned into an event of it is discarded.
func TestLettersAs(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		letters := stage.NewSource[string](nil)
		src := counter(6)
		g := stage.NewGate(func(_ context.Context, batch []int) ([]string, error) {
			if i := slices.Index(batch, 3); i >= 0 {
				return make([]string, i), stage.FailedAt(i, errOops)
			}
			return make([]string, len(batch)), nil
		})
		g.OnError.Then, g.DeadLetters = stage.ToDeadLetters, stage.LettersAs(letters, func(l stage.DeadLetter[int]) string {
			return fmt.Sprint("number ", l.Event, ": ", l.Err)
		})
		calls := 0
		k := stage.NewSink(func(context.Context, []string) error { return errOops })
		k.OnError.Then, k.DeadLetters = stage.ToDeadLetters, stage.LettersAs(letters, func(l stage.DeadLetter[string]) string {
			if calls++; calls == 2 {
				panic("boom")
			}
			return "text: " + l.Err
		})
		k.OnDiscard = func(string, int) {}
		var got log[string]
		reader := stage.NewSink(func(_ context.Context, batch []string) error { got.add(batch...); return nil })
		stage.Connect(src, g)
		stage.Connect(g, k)
		stage.Connect(letters, reader)
		require.NoError(t, stage.Run(t.Context(), src, g, k, letters, reader))
		require.ElementsMatch(t, []string{"number 3: oops", "text: oops", "text: oops", "text: oops", "text: oops"}, got.get())
		require.EqualValues(t, 4, k.Inspect().DeadLettered)
		require.Equal(t, map[string]int64{stage.DiscardHandler: 1}, k.Inspect().Discarded, "by name")
	})
}

// What was tried too often at several consumers goes to the producer's dead letters.
func TestExhaustedIsDeadLettered(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		letters := stage.NewDeadLetters[int]()
		src.Name, src.MaxAttempts, src.DeadLetters = "numbers", 2, letters
		wait, stop := start(t, src)
		require.NoError(t, src.Push(1, 2, 3))
		for range 2 {
			k, _ := poisoned(only(2))
			stage.Connect(src, k)
			require.ErrorIs(t, stage.Run(t.Context(), k), errOops)
		}
		k, got := keeper()
		stage.Connect(src, k)
		rest, _ := start(t, k)
		synctest.Wait()
		require.Equal(t, []int{3}, got.get(), "the second one has handled 1, alone")
		require.Equal(t, map[string]int64{stage.DiscardExhausted: 1}, src.Inspect().Discarded)
		var dead log[stage.DeadLetter[int]]
		reader := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[int]) error { dead.add(batch...); return nil })
		stage.Connect(letters, reader)
		src.Finish()
		require.NoError(t, stage.Run(t.Context(), letters, reader))
		require.NoError(t, wait())
		require.NoError(t, rest())
		stop()
		require.Len(t, dead.get(), 1)
		one := dead.get()[0]
		require.Contains(t, one.Err, "oops")
		one.Err = ""
		require.Equal(t, stage.DeadLetter[int]{Event: 2, Attempts: 2, Stage: "numbers", Outlet: "numbers", Reason: stage.DiscardExhausted}, one)
	})
}

// A retry waits, says so, and goes on where it was when it helps.
func TestRetry(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		failures := 3
		k, got := poisoned(func(e int) error {
			if e == 4 && failures > 0 {
				failures--
				return errOops
			}
			return nil
		})
		k.OnError = stage.ErrorPolicy{Retries: 3, Delay: time.Second}
		stage.Connect(src, k, stage.MaxDemand(10), stage.MinDemand(5))
		begin := time.Now()
		wait, _ := start(t, src, k)
		synctest.Wait()
		i := k.Inspect()
		require.Equal(t, "retrying", i.State)
		require.ErrorIs(t, i.Err, errOops)
		require.Equal(t, 1, i.Attempt)
		require.NoError(t, wait())
		require.Greater(t, time.Since(begin), 3*time.Second)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, got.get())
		require.NoError(t, k.Inspect().Err)
	})
}

// When it does not help, what follows is done; a retry counts one attempt.
func TestRetryIsBounded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &byHand{}
		calls := 0
		k, _ := poisoned(func(int) error { calls++; return errOops })
		k.OnError = stage.ErrorPolicy{Retries: 2}
		stage.Connect[int](src, k)
		wait, _ := start(t, k)
		synctest.Wait()
		src.deliver(1, 2)
		require.ErrorIs(t, wait(), errOops)
		require.Equal(t, 3, calls)
		cancels := src.cancels.get()
		last := cancels[len(cancels)-1]
		require.Equal(t, []stage.Returned[int]{{Event: 1, Attempts: 1}, {Event: 2, Attempts: 1}}, last.Rest)
		require.Equal(t, []stage.Range{{First: 1, Last: 2}}, last.Tried)
	})
}

// A delay keeps nobody: neither the end of the stage, nor a cancel, nor what arrives.
func TestRetryIsInterrupted(t *testing.T) {
	f := func(name string, interrupt func(src *byHand, sub *stage.Subscription, stop context.CancelFunc), want error) {
		bubble(t, name, func(t *testing.T) {
			src := &byHand{}
			calls := 0
			k, _ := poisoned(func(int) error { calls++; return errOops })
			k.OnError = stage.ErrorPolicy{Retries: 9, Delay: time.Hour, MaxDelay: time.Hour}
			sub := stage.Connect[int](src, k)
			begin := time.Now()
			wait, stop := start(t, k)
			synctest.Wait()
			src.deliver(1)
			synctest.Wait()
			src.deliver(2)  // it is received all the same
			synctest.Wait() // and by now it waits again
			require.Equal(t, 1, calls)
			require.EqualValues(t, 2, sub.Info().Received)
			interrupt(src, sub, stop)
			require.ErrorIs(t, wait(), want)
			require.Zero(t, time.Since(begin))
			require.Equal(t, 2, calls, "it is tried once more")
		})
	}
	f("stop", func(_ *byHand, _ *stage.Subscription, stop context.CancelFunc) { stop() }, errOops)
	f("cancel", func(_ *byHand, sub *stage.Subscription, _ context.CancelFunc) { sub.Cancel() }, errOops)
	f("end", func(src *byHand, _ *stage.Subscription, _ context.CancelFunc) {
		src.end(stage.Lost, errors.New("lost"))
	}, errOops)
}

// Of a gate, what it has made of the events before the one that failed is passed on.
func TestGateFailsAt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(10)
		g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			if i := slices.Index(events, 6); i >= 0 {
				return events[:i], stage.FailedAt(i, errOops)
			}
			return events, nil
		})
		g.OnError = stage.ErrorPolicy{Then: stage.Skip}
		g.OnDiscard = func(string, int) {}
		k, got := keeper()
		stage.Connect(src, g)
		stage.Connect(g, k)
		require.NoError(t, stage.Run(t.Context(), src, g, k))
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 7, 8, 9}, got.get())
		require.Equal(t, map[string]int64{stage.DiscardHandler: 1}, g.Inspect().Discarded)
	})
}

// A restart of a stage that sends to dead letters does not end them.
func TestDeadLettersOutliveRestarts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(6)
		letters := stage.NewDeadLetters[int]()
		crashes := 0
		sup := stage.Supervise(stage.OneForOne, func() stage.Runner {
			k, _ := poisoned(only(4))
			k.OnError, k.DeadLetters = stage.ErrorPolicy{Then: stage.ToDeadLetters}, letters
			k.OnSubscribed = func(*stage.Subscription) error {
				if crashes++; crashes < 3 {
					return errOops
				}
				return nil
			}
			stage.Connect(src, k)
			return k
		})
		sup.OnRestart = func(int, error) {}
		var dead log[stage.DeadLetter[int]]
		reader := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[int]) error { dead.add(batch...); return nil })
		stage.Connect(letters, reader)
		require.NoError(t, stage.Run(t.Context(), src, sup, letters, reader))
		require.Len(t, dead.get(), 1)
		require.Equal(t, 3, crashes)
	})
}
