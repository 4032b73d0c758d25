package conform

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Rows that are about more than one stage, or about what can be seen of them, in one
// process. A bubble fails when something waits for ever or is left behind.

func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// counter is a source of the numbers from 0 on, as many as are asked for.
func counter() *stage.Source[int] {
	next := 0
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		events := make([]int, demand)
		for i := range events {
			events[i] = next
			next++
		}
		return events, nil
	})
}

// diary is what several goroutines have to say, in the order in which they did.
type diary[T any] struct {
	mu  sync.Mutex
	all []T
}

func (d *diary[T]) add(v ...T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, v...)
}

func (d *diary[T]) get() []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

func keeper() (*stage.Sink[int], *diary[int]) {
	var got diary[int]
	return stage.NewSink(func(_ context.Context, events []int) error {
		got.add(events...)
		time.Sleep(time.Millisecond) // of the bubble: nobody runs without end in no time
		return nil
	}), &got
}

// DDX-01: two sources that are left as they are do not share a dispatcher.
func TestDefaultDispatcher(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two := counter(), counter()
		sink, got := keeper()
		stage.Connect(one, sink, stage.MaxDemand(4), stage.MinDemand(3))
		wait, stop := running(t, one, two, sink)
		require.Eventually(t, func() bool { return len(got.get()) > 100 }, time.Hour, time.Millisecond)
		require.Equal(t, "demand", one.Inspect().Dispatcher)
		require.Equal(t, "demand", two.Inspect().Dispatcher)
		require.Zero(t, two.Inspect().Unmet)
		require.Zero(t, two.Inspect().Out)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// GAT-02 and GAT-18: without anybody who wants it, a gate's input is handled, and no
// more of it is pulled than it has asked for.
func TestGateHandlesAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter()
		var handled diary[int]
		g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			handled.add(events...)
			return events, nil
		})
		stage.Connect(src, g, stage.MaxDemand(10), stage.MinDemand(8))
		wait, stop := running(t, src, g)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, handled.get())
		require.EqualValues(t, 10, src.Inspect().Out)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// GAT-15: what a message makes a gate emit is not its input's doing.
func TestMessagesOfAGateHoldWhatIsHeld(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter()
		g := stage.NewGate(stage.Map(pass))
		send := stage.Handle(g, func(_ context.Context, n int) ([]int, error) { return []int{n}, nil })
		sub := stage.Connect(src, g, stage.MaxDemand(6), stage.MinDemand(2))
		wait, stop := running(t, src, g)
		synctest.Wait()
		require.EqualValues(t, 4, sub.Info().Held)
		require.NoError(t, send(99))
		synctest.Wait()
		require.Equal(t, 7, g.Inspect().Buffered)
		require.EqualValues(t, 4, sub.Info().Held)
		require.EqualValues(t, 6, src.Inspect().Out)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// GAT-19: the end of a gate's input comes behind the input.
func TestInputBeforeItsEnd(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		require.NoError(t, src.Push(1, 2, 3, 4, 5, 6))
		src.Finish()
		slow := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			time.Sleep(time.Second)
			return events, nil
		})
		sub := stage.Connect(src, slow, stage.MaxDemand(6), stage.MinDemand(4))
		sink, got := keeper()
		stage.Connect(slow, sink)
		wait, _ := running(t, src, slow, sink)
		time.Sleep(1500 * time.Millisecond)
		require.Zero(t, sub.Ending().Reason, "it is not over before it is handled")
		require.NoError(t, wait())
		require.Equal(t, []int{1, 2, 3, 4, 5, 6}, got.get())
	})
}

// GAT-20 and GAT-21: windows of different sizes, one after the other.
func TestWindowsInARow(t *testing.T) {
	for _, min := range []int{80, 20} {
		bubble(t, "", func(t *testing.T) {
			src, g := counter(), stage.NewGate(stage.Map(func(i int) int { return 2 * i }))
			var got []int
			sink := stage.NewSink(func(_ context.Context, events []int) error {
				require.LessOrEqual(t, len(events), 50)
				if got = append(got, events...); len(got) > 1000 {
					return stage.Stop
				}
				return nil
			})
			stage.Connect(src, g, stage.MaxDemand(100), stage.MinDemand(min))
			stage.Connect(g, sink, stage.MaxDemand(100), stage.MinDemand(50))
			require.NoError(t, stage.Run(t.Context(), src, g, sink))
			for i, e := range got {
				require.Equal(t, 2*i, e)
			}
		})
	}
}

// CAN-22 and HOK-15: what waits is served first when somebody leaves, then the hook is told, and
// then the source is asked for the rest.
func TestOrderOfADeparture(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var told diary[string]
		var sent int64
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			told.add("source")
			if len(told.get()) > 4 {
				return nil, nil
			}
			return make([]int, n), nil
		})
		src.Dispatcher = dispatch.Broadcast[int]()
		src.OnSubscribers = func(c stage.SubscriberChange) {
			if c.Left != nil {
				told.add("hook")
				sent = src.Inspect().Subscribers[0].Sent
			}
		}
		one := stage.NewSink(func(context.Context, []int) error { told.add("events"); return nil })
		two := stage.NewSink(func(context.Context, []int) error { return nil })
		stage.Connect(src, one, stage.MaxDemand(6), stage.MinDemand(0))
		sub := stage.Connect(src, two, stage.Manual(), stage.Temporary)
		require.NoError(t, src.Push(1, 2, 3))
		wait, stop := running(t, src, two, one) // two is there before one asks
		synctest.Wait()
		require.Empty(t, told.get())
		sub.Cancel()
		synctest.Wait()
		require.EqualValues(t, 3, sent, "what waited")
		require.Equal(t, []string{"hook", "source"}, slices.DeleteFunc(told.get()[:3], func(s string) bool { return s == "events" }))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// CAN-18: a consumer that cancels what its producer has forgotten is told, and done.
func TestCancelOfWhatIsForgotten(t *testing.T) {
	c := wire.NewConsumer(1, 1, 5)
	p, _, err := wire.NewProducer(c.Open(), 100, 100)
	require.NoError(t, err)
	require.NoError(t, c.Opened(7, p.Granted(), p.Next()))
	c.Broken()
	require.NoError(t, c.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "no more"))
	_, _, err = wire.NewProducer(c.Open(), 100, 100)
	require.ErrorIs(t, err, wire.RuleUnknownSession)
	require.Equal(t, wire.Completed, c.Refused(wire.RuleUnknownSession, 7))
}

// SUB-03: a window that makes no sense is found before anything else, and then that the
// consumer has ended.
func TestOrderOfChecks(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		g := stage.NewGate(stage.Map(pass))
		wait, stop := running(t, g)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		_, err := stage.Subscribe(t.Context(), g, g, stage.MaxDemand(0))
		require.ErrorIs(t, err, stage.ErrInvalidDemand)
		_, err = stage.Subscribe(t.Context(), g, g)
		require.ErrorIs(t, err, stage.ErrEnded)
	})
}

// SUB-14: around the deadline, success is a live subscription and a timeout none.
func TestAcceptedAtTheDeadline(t *testing.T) {
	for _, late := range []time.Duration{-1, 0, 1} {
		bubble(t, "", func(t *testing.T) {
			sink, _ := keeper()
			wait, stop := running(t, sink)
			out := &hesitant{after: stage.DefaultSubscribeTimeout + late*time.Millisecond}
			sub, err := stage.Subscribe(t.Context(), out, sink, stage.Temporary)
			time.Sleep(time.Second)
			if err == nil {
				require.NoError(t, sub.Ready(t.Context()))
				require.Zero(t, sub.Ending().Reason)
				require.Empty(t, out.cancels.get())
			} else {
				require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
				require.Len(t, out.cancels.get(), 1)
			}
			require.True(t, late == 0 || (err == nil) == (late < 0))
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
}

// hesitant is an outlet that takes its time to accept.
type hesitant struct {
	excessive
	after   time.Duration
	cancels diary[string]
}

func (h *hesitant) Attach(_ stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	h.to = r
	time.AfterFunc(h.after, r.Opened)
	return h, nil
}

func (*hesitant) Ask(int64, int64, ...stage.Range) error { return nil }

func (h *hesitant) Cancel(c stage.Cancel[int]) {
	h.cancels.add(c.Reason)
	h.to.Ended(stage.Ending{Reason: stage.Cancelled})
}

// MAN-11: a handler that counts and a timer that asks make a rate limiter.
func TestRateLimiter(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter()
		var at []time.Duration
		begin := time.Now()
		processed := 0
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			processed += len(events)
			at = append(at, time.Since(begin))
			return nil
		})
		sink.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(10) }
		sub := stage.Connect(src, sink, stage.Manual())
		tick := stage.HandleSink(sink, func(context.Context, time.Time) error {
			n := processed
			processed = 0
			return sub.Ask(n)
		})
		wait, stop := running(t, src, sink)
		for range 3 {
			time.Sleep(2 * time.Second)
			require.NoError(t, tick(time.Now()))
		}
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second}, at)
		require.EqualValues(t, 40, src.Inspect().Out)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		require.ErrorIs(t, tick(time.Now()), stage.ErrEnded, "a late tick does nothing")
	})
}

// SUP-10: a stage that fails is an error of its Run, and of nothing else.
func TestFailureIsReturned(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(context.Context, int) ([]int, error) { panic("oops") })
		sink, _ := keeper()
		stage.Connect(src, sink, stage.Temporary)
		wait, stop := running(t, src, sink)
		synctest.Wait()
		require.Equal(t, "failed", src.Inspect().State)
		require.Equal(t, "running", sink.Inspect().State)
		stop()
		require.ErrorContains(t, wait(), "oops")
	})
}

// SUP-12: a subscription belongs to who held the name when it was made.
func TestNameIsResolvedOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		first, second := counter(), counter()
		first.Name, second.Name = "numbers", "numbers"
		require.NoError(t, stage.Register(&names, first))
		sink, got := keeper()
		sub := stage.Connect(stage.Named[int](&names, "numbers"), sink, stage.MaxDemand(5), stage.Temporary)
		one, two := stage.Group(first, sink), second
		waitOne, stopOne := running(t, one)
		require.Eventually(t, func() bool { return len(got.get()) > 10 }, time.Hour, time.Millisecond)
		require.ErrorIs(t, stage.Register(&names, two), stage.ErrNameTaken)
		stopOne()
		require.ErrorIs(t, waitOne(), context.Canceled)
		require.NoError(t, stage.Register(&names, two))
		require.NotZero(t, sub.Ending().Reason)
		require.Empty(t, two.Inspect().Subscribers, "it does not move on by itself")
	})
}
