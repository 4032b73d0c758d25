package stage_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// batches is a sink that notes each batch that it is given.
func batches() (*stage.Sink[int], *log[[]int]) {
	var got log[[]int]
	return stage.NewSink(func(_ context.Context, events []int) error {
		got.add(append([]int{}, events...))
		return nil
	}), &got
}

// MSG-01, MSG-02 and EDG-10: a source that only emits from messages, one after the other.
func TestMessagesOfASilentSource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		send := stage.Handle(src, func(_ context.Context, n int) ([]int, error) { return []int{n}, nil })
		sink, got := batches()
		stage.Connect(src, sink)
		wait, stop := start(t, src, sink)
		time.AfterFunc(50*time.Millisecond, func() { require.NoError(t, send(99)) })
		time.Sleep(time.Second)
		require.NoError(t, send(1))
		require.NoError(t, send(2))
		synctest.Wait()
		require.Equal(t, [][]int{{99}, {1}, {2}}, got.get())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.ErrorIs(t, send(3), stage.ErrEnded)
	})
}

// MSG-03: messages and events of a gate have one order.
func TestMessagesOfAGate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, factor := counter(1<<30), 2
		g := stage.NewGate(func(_ context.Context, events []int) (out []int, err error) {
			for _, e := range events {
				out = append(out, factor*e)
			}
			return out, nil
		})
		set := stage.Handle(g, func(_ context.Context, f int) ([]int, error) { factor = f; return nil, nil })
		say := stage.Handle(g, func(_ context.Context, word string) ([]int, error) { return []int{-len(word)}, nil })
		in := stage.Connect(src, g, stage.Manual())
		sink, got := batches()
		stage.Connect(g, sink)
		wait, stop := start(t, src, g, sink)
		synctest.Wait()
		require.NoError(t, in.Ask(2))
		synctest.Wait()
		require.NoError(t, set(10))
		require.NoError(t, in.Ask(2))
		synctest.Wait()
		require.Equal(t, [][]int{{0, 2}, {20, 30}}, got.get())
		require.NoError(t, say("three"))
		synctest.Wait()
		require.Equal(t, []int{-5}, got.get()[2])
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// MSG-04: a sink handles messages without any subscription, and is stopped by one.
func TestMessagesOfASink(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		sink, _ := keeper()
		var notes log[string]
		send := stage.HandleSink(sink, func(ctx context.Context, note string) error {
			_, ok := stage.Delivery(ctx)
			require.False(t, ok)
			notes.add(note)
			if note == "halt" {
				return stage.Stop
			}
			return nil
		})
		require.NoError(t, send("early")) // MSG-05: also before the run
		wait, _ := start(t, sink)
		require.NoError(t, send("note"))
		require.NoError(t, send("halt"))
		require.NoError(t, wait())
		require.Equal(t, []string{"early", "note", "halt"}, notes.get())
		require.ErrorIs(t, send("late"), stage.ErrEnded)
	})
}

// MSG-06: a message waits for all parts of the delivery before it.
func TestMessageWaitsForTheDelivery(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		h := &byHand{}
		var told log[string]
		steps := make(chan struct{})
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			<-steps
			told.add(fmt.Sprint(events))
			return nil
		})
		send := stage.HandleSink(sink, func(context.Context, int) error { told.add("message"); return nil })
		stage.Connect[int](h, sink, stage.MaxDemand(6), stage.MinDemand(4))
		wait, _ := start(t, sink)
		synctest.Wait()
		h.deliver(1, 2, 3, 4, 5)
		synctest.Wait()
		require.NoError(t, send(0))
		require.Equal(t, 1, sink.Inspect().Messages)
		h.deliver(6)
		close(steps)
		synctest.Wait()
		require.Equal(t, []string{"[1 2]", "[3 4]", "[5]", "message", "[6]"}, told.get())
		require.Zero(t, sink.Inspect().Messages)
		h.end(stage.Completed, nil)
		require.NoError(t, wait())
	})
}

// MSG-02 and MSG-07: what a message makes goes the ordinary way, through selectors and
// buffers, and what is asked for in its place is produced by the handler, in its turn.
func TestMessagesAndSelectors(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, demands := noted(1 << 30)
		src.Dispatcher = dispatch.Broadcast[int]()
		send := stage.Handle(src, func(_ context.Context, n int) ([]int, error) {
			demands.add(-n)
			return []int{-n, -n - 1}, nil
		})
		sink, got := keeper()
		require.NoError(t, send(7)) // it waits for the run
		sub := stage.Connect(stage.Where[int](src, func(n int) bool { return n%2 == 0 }), sink, stage.Manual())
		wait, stop := start(t, src, sink)
		synctest.Wait()
		require.Equal(t, []int{-7}, demands.get())
		require.NoError(t, sub.Ask(3))
		synctest.Wait()
		require.Equal(t, []int{-8, 0, 2}, got.get())
		require.Equal(t, []int{-7, 2, 1}, demands.get(), "0 and 1, and 2 in place of 1")
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// How a message ends its stage, and that what it made comes first.
func TestMessagesEndStages(t *testing.T) {
	f := func(name string, result error, want error, reason stage.Reason, events int, build func(handle func(context.Context, int) ([]int, error)) (stage.Outlet[int], func(int) error, []stage.Runner)) {
		bubble(t, name, func(t *testing.T) {
			o, send, stages := build(func(_ context.Context, n int) ([]int, error) { return upTo(0, n), result })
			sink, got := keeper()
			sub := stage.Connect(o, sink, stage.Temporary)
			wait, stop := start(t, append(stages, sink)...)
			synctest.Wait()
			require.NoError(t, send(3))
			<-sub.Done()
			require.Equal(t, reason, sub.Ending().Reason)
			require.Len(t, got.get(), events)
			stop()
			err := wait()
			if want == nil {
				want = context.Canceled
			}
			require.ErrorIs(t, err, want)
		})
	}
	source := func(handle func(context.Context, int) ([]int, error)) (stage.Outlet[int], func(int) error, []stage.Runner) {
		src := idle()
		return src, stage.Handle(src, handle), []stage.Runner{src}
	}
	gate := func(handle func(context.Context, int) ([]int, error)) (stage.Outlet[int], func(int) error, []stage.Runner) {
		src, g := idle(), stage.NewGate(stage.Map(double))
		stage.Connect(src, g)
		return g, stage.Handle(g, handle), []stage.Runner{src, g}
	}
	f("a source completes", io.EOF, nil, stage.Completed, 3, source)
	f("a source fails", errOops, errOops, stage.Failed, 3, source)
	f("a gate completes", stage.Stop, nil, stage.Completed, 3, gate)
	f("a gate fails", errOops, errOops, stage.Failed, 3, gate)
	f("a wrapped EOF is a failure", fmt.Errorf("read: %w", io.EOF), io.EOF, stage.Failed, 3, source)
}

// A panic in the handler of a message fails the stage.
func TestMessagePanics(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := stage.NewSource[int](nil), stage.NewGate(stage.Map(double))
		sink, _ := keeper()
		boom := func(context.Context, int) ([]int, error) { panic("boom") }
		sends := []func(int) error{stage.Handle(src, boom), stage.Handle(g, boom),
			stage.HandleSink(sink, func(context.Context, int) error { panic("boom") })}
		for i, s := range []stage.Runner{src, g, sink} {
			require.NoError(t, sends[i](1))
			var p *stage.PanicError
			require.ErrorAs(t, s.Run(t.Context()), &p)
		}
	})
}

// Whoever sends more messages than a stage can take is told so.
func TestTooManyMessages(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src, g := stage.NewSource[int](nil), stage.NewGate(stage.Map(double))
		none := func(context.Context, struct{}) ([]int, error) { return nil, nil }
		for _, send := range []func(struct{}) error{stage.Handle(src, none), stage.Handle(g, none)} {
			for range 10_000 {
				require.NoError(t, send(struct{}{}))
			}
			require.ErrorIs(t, send(struct{}{}), stage.ErrBusy)
		}
		require.Equal(t, 10_000, src.Inspect().Messages)
		wait, stop := start(t, src, g)
		synctest.Wait()
		require.Zero(t, src.Inspect().Messages+g.Inspect().Messages)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// A message may send another, push, ask and cancel: nothing of that waits.
func TestMessagesDoNotWait(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		var send func(int) error
		send = stage.Handle(src, func(_ context.Context, n int) ([]int, error) {
			require.NoError(t, src.Push(100*n))
			if n == 0 {
				src.Finish()
				require.ErrorIs(t, send(0), stage.ErrEnded)
				require.ErrorIs(t, src.Push(1), stage.ErrEnded)
				return []int{0}, nil
			}
			require.NoError(t, send(n-1))
			return []int{n}, nil
		})
		sink, got := keeper()
		stage.Connect(src, sink)
		require.NoError(t, send(2))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, []int{200, 2, 100, 1, 0, 0}, got.get())
	})
}
