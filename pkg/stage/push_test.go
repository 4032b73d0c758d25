package stage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// END-10 and END-11: what is pushed goes out at once as far as it is asked for, and the
// rest when it is.
func TestPush(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		require.NoError(t, src.Push(1, 2)) // before anybody is there
		wait, _ := start(t, src)
		r := read(t, src)
		require.NoError(t, r.Ask(6, 0))
		require.Equal(t, []int{1, 2}, r.events())
		events := []int{3, 4, 5}
		require.NoError(t, src.Push(events...))
		clear(events) // it stays the caller's
		require.Equal(t, upTo(1, 6), r.events())
		events = upTo(6, 16)
		require.NoError(t, src.Push(events...))
		clear(events)
		require.Equal(t, upTo(1, 7), r.events())
		require.NoError(t, r.Ask(100, 6))
		require.Equal(t, upTo(1, 16), r.events())
		require.NoError(t, src.Push())
		src.Finish()
		src.Finish()
		require.NoError(t, r.Ack(15))
		require.NoError(t, wait())
		require.Equal(t, stage.Completed, r.endings.get()[0].Reason)
		require.ErrorIs(t, src.Push(1), stage.ErrEnded) // END-13, corrected
		_, err := src.PushWait(t.Context(), 1)
		require.ErrorIs(t, err, stage.ErrEnded)
		src.Finish()
	})
}

// END-12 and END-09: pushed, pulled and sent events have one order, that of emission, and
// finishing serves them all.
func TestPushAndPull(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, _ := noted(1 << 30)
		send := stage.Handle(src, func(_ context.Context, n int) ([]int, error) { return []int{n}, nil })
		r := read(t, src)
		wait, _ := start(t, src)
		require.NoError(t, r.Ask(2, 0))
		synctest.Wait()
		require.NoError(t, src.Push(-1, -2))
		require.NoError(t, send(-3))
		synctest.Wait()
		require.NoError(t, src.Push(-4))
		require.NoError(t, r.Ask(5, 2))
		synctest.Wait()
		require.Equal(t, []int{0, 1, -1, -2, -3, -4, 2}, r.events())
		require.NoError(t, src.Push(-5))
		require.NoError(t, send(-6))
		src.Finish()
		synctest.Wait()
		require.Equal(t, "ending", src.Inspect().State)
		require.NoError(t, r.Ask(10, 7))
		require.Equal(t, []int{-5, -6}, r.events()[7:])
		require.NoError(t, r.Ack(9))
		require.NoError(t, wait())
	})
}

// DEM-18: a handler that had nothing is asked again behind a push, for what is left.
func TestPushWakesTheHandler(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var demands log[int]
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) { demands.add(n); return nil, nil })
		r := read(t, src)
		wait, stop := start(t, src)
		require.NoError(t, r.Ask(5, 0))
		synctest.Wait()
		require.NoError(t, src.Push(1, 2))
		synctest.Wait()
		require.Equal(t, []int{5, 3}, demands.get())
		require.NoError(t, r.Ack(2))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// END-14 and BUF-24: who pushes more than is wanted loses by the buffer's rule, and knows.
func TestPushOverflows(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Buffer = stage.KeepLast(10)
		lost := map[string]int{}
		src.OnDiscard = func(reason string, n int) { lost[reason] += n }
		wait, _ := start(t, src)
		r := read(t, src)
		require.NoError(t, r.Ask(5, 0))
		for i := range 5 {
			require.NoError(t, src.Push(upTo(10*i, 10*i+10)...))
		}
		require.NoError(t, r.Ask(100, 5))
		src.Finish()
		require.NoError(t, r.Ack(15))
		require.NoError(t, wait())
		require.Equal(t, append(upTo(0, 5), upTo(40, 50)...), r.events())
		require.Equal(t, map[string]int{stage.DiscardOverflow: 35}, lost)
	})
}

// PushWait waits for room, pushes in parts, and loses nothing.
func TestPushWait(t *testing.T) {
	f := func(name string, buffer stage.Buffer, opts ...stage.Option) {
		bubble(t, name, func(t *testing.T) {
			src := stage.NewSource[int](nil)
			src.Buffer = buffer
			src.OnDiscard = func(reason string, n int) { t.Errorf("%d %s", n, reason) }
			var got log[int]
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				time.Sleep(time.Millisecond)
				got.add(events...)
				return nil
			})
			stage.Connect(src, sink, opts...)
			wait, _ := start(t, src, sink)
			var wg sync.WaitGroup
			for p := range 3 {
				wg.Go(func() {
					n, err := src.PushWait(t.Context(), upTo(100*p, 100*p+100)...)
					require.NoError(t, err)
					require.Equal(t, 100, n)
				})
			}
			wg.Wait()
			src.Finish()
			require.NoError(t, wait())
			require.ElementsMatch(t, upTo(0, 300), got.get())
			last := map[int]int{}
			for _, e := range got.get() { // each pusher's are in order
				require.True(t, e%100 == 0 || last[e/100] == e-1, "%d after %d", e, last[e/100])
				last[e/100] = e
			}
		})
	}
	f("into a buffer", stage.KeepLast(7), stage.MaxDemand(3))
	f("into demand alone", stage.KeepFirst(0), stage.MaxDemand(3))
	f("without a limit", stage.Unlimited(), stage.MaxDemand(1))
	f("without bounds", stage.KeepLast(0), stage.Unbounded())
}

// With partitions nobody knows which events are wanted before they are there: only the
// buffer's room counts, and nothing is given up.
func TestPushWaitInPartitions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Buffer, src.Dispatcher = stage.KeepLast(4), dispatch.Partition(2, func(i int) int { return i })
		src.OnDiscard = func(reason string, n int) { require.NotEqual(t, stage.DiscardOverflow, reason) }
		even := &reader{}
		up, err := src.Attach(stage.Terms{Partition: 0}, even)
		require.NoError(t, err)
		require.NoError(t, up.Ask(100, 0))
		wait, stop := start(t, src)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n, err := src.PushWait(ctx, 1, 3, 2, 5, 7, 4, 9)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5, n)
		require.Equal(t, []int{2}, even.events())
		require.Equal(t, []int{0, 4}, src.Inspect().Waiting)
		require.Equal(t, 4, src.Inspect().Buffered)
		up.Cancel(stage.Cancel[int]{Acked: 1})
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Who waits for room is told when there will be none.
func TestPushWaitIsCut(t *testing.T) {
	f := func(name string, want error, cut func(src *stage.Source[int], stop, cancel func())) {
		bubble(t, name, func(t *testing.T) {
			src := stage.NewSource[int](nil)
			src.Buffer = stage.KeepLast(2)
			src.OnDiscard = func(string, int) {}
			wait, stop := start(t, src)
			synctest.Wait()
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cut(src, stop, func() { cancel(errOops) }) })
			begin := time.Now()
			n, err := src.PushWait(ctx, 1, 2, 3)
			require.Equal(t, time.Second, time.Since(begin))
			require.ErrorIs(t, err, want)
			require.Equal(t, 2, n)
			cancel(nil)
			stop()
			_ = wait()
		})
	}
	f("ctx", errOops, func(_ *stage.Source[int], _, cancel func()) { cancel() })
	f("stopped", stage.ErrEnded, func(_ *stage.Source[int], stop, _ func()) { stop() })
	f("finished", stage.ErrEnded, func(src *stage.Source[int], _, _ func()) { src.Finish() })
	f("failed", stage.ErrEnded, func(src *stage.Source[int], _, _ func()) {
		send := stage.Handle(src, func(context.Context, int) ([]int, error) { return nil, errOops })
		_ = send(1)
	})
}

// PushWait and a ctx that is over: nothing is pushed.
func TestPushWaitWithoutTime(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOops)
	src := stage.NewSource[int](nil)
	n, err := src.PushWait(ctx, 1)
	require.Zero(t, n)
	require.ErrorIs(t, err, errOops)
	require.Zero(t, src.Inspect().Buffered)
}

// Finish ends the ctx of a handler that waits for events, and not the one of messages
// that were sent before.
func TestFinishWhileAHandlerWaits(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(ctx context.Context, _ int) ([]int, error) {
			<-ctx.Done()
			return []int{1}, context.Cause(ctx)
		})
		send := stage.Handle(src, func(ctx context.Context, n int) ([]int, error) {
			time.Sleep(time.Second)
			require.NoError(t, ctx.Err())
			return []int{n}, nil
		})
		sink, got := keeper()
		stage.Connect(src, sink)
		wait, _ := start(t, src, sink)
		synctest.Wait()
		require.NoError(t, send(2))
		require.NoError(t, src.Push(0))
		src.Finish()
		require.ErrorIs(t, send(3), stage.ErrEnded)
		require.NoError(t, wait())
		require.Equal(t, []int{0, 1, 2}, got.get())
		require.Equal(t, "ended", src.Inspect().State)
	})
}

// A handler whose own ctx has ended has failed, also when the source is to finish.
func TestFinishHidesNoFailure(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(ctx context.Context, _ int) ([]int, error) {
			<-ctx.Done()
			return nil, errOops
		})
		sink, _ := keeper()
		stage.Connect(src, sink, stage.Temporary)
		wait, stop := start(t, src, sink)
		synctest.Wait()
		src.Finish()
		<-src.Ended()
		stop()
		require.ErrorIs(t, wait(), errOops)
	})
}

// A source may be finished before it runs: what was pushed goes out still.
func TestFinishBeforeTheRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		require.NoError(t, src.Push(1, 2, 3))
		src.Finish()
		require.ErrorIs(t, src.Push(4), stage.ErrEnded)
		sink, got := keeper()
		sub := stage.Connect(src, sink)
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, upTo(1, 4), got.get())
		require.Equal(t, stage.Completed, sub.Ending().Reason)
	})
}

// A dispatcher that fails while somebody pushes fails its source, and who pushes is told.
func TestPushIntoTrouble(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Dispatcher = dispatch.Partition(2, func(int) int { panic("boom") })
		wait, _ := start(t, src)
		var p *stage.PanicError
		require.ErrorAs(t, src.Push(1), &p)
		require.ErrorAs(t, wait(), &p)
		err := src.Push(1)
		require.True(t, errors.Is(err, stage.ErrEnded))
	})
}
