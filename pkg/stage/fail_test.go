package stage_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// trouble is what a handler can do that is worse than to return an error.
var trouble = map[string]struct {
	do    func()
	check func(t *testing.T, err error)
}{
	"panic": {func() { panic("boom") }, func(t *testing.T, err error) {
		var p *stage.PanicError
		require.ErrorAs(t, err, &p)
		require.Equal(t, "boom", p.Value)
		require.Contains(t, err.Error(), "fail_test.go", "the stack says where")
	}},
	"nil panic": {func() { panic(any(nil)) }, func(t *testing.T, err error) { //nolint:govet // on purpose
		var p *stage.PanicError
		require.ErrorAs(t, err, &p)
	}},
	"exit": {runtime.Goexit, func(t *testing.T, err error) { require.ErrorIs(t, err, stage.ErrExited) }},
}

// EDG-05: whatever goes wrong in a handler fails its own stage, and reaches the others as the
// failure of their subscriptions.
func TestTroubleInHandlers(t *testing.T) {
	for what, trouble := range trouble {
		f := func(where string, produce, transform, consume func()) {
			bubble(t, what+" in the "+where, func(t *testing.T) {
				src := stage.NewSource(func(_ context.Context, n int) ([]int, error) { produce(); return make([]int, n), nil })
				g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) { transform(); return events, nil })
				sink := stage.NewSink(func(context.Context, []int) error { consume(); return nil })
				src.Name, g.Name, sink.Name = "source", "gate", "sink"
				stage.Connect(src, g)
				stage.Connect(g, sink)
				err := stage.Run(t.Context(), src, g, sink)
				trouble.check(t, err)
				var failed *stage.Error
				require.ErrorAs(t, err, &failed)
				for name, s := range map[string]stage.Inspector{"source": src, "gate": g, "sink": sink} {
					if name == where {
						trouble.check(t, s.Inspect().Err)
						require.Equal(t, "failed", s.Inspect().State)
					}
				}
			})
		}
		nothing := func() {}
		f("source", trouble.do, nothing, nothing)
		f("gate", nothing, trouble.do, nothing)
		f("sink", nothing, nothing, trouble.do)
	}
}

// sabotaged is a dispatcher of a user's own with a bug in one place.
type sabotaged struct {
	dispatch.Dispatcher[int]
	where string
	armed bool
}

func (d *sabotaged) trip(where string) bool {
	if d.where == where && d.armed {
		panic("boom")
	}
	return false
}

func (d *sabotaged) Ask(id dispatch.ID, n int64) { d.trip("ask"); d.Dispatcher.Ask(id, n) }
func (d *sabotaged) Leave(id dispatch.ID)        { d.trip("leave"); d.Dispatcher.Leave(id) }
func (d *sabotaged) Demand() int64               { d.trip("demand"); return d.Dispatcher.Demand() }
func (d *sabotaged) Lane(e int) int              { d.trip("lane"); return d.Dispatcher.Lane(e) }
func (d *sabotaged) Join(id dispatch.ID, t dispatch.Terms) error {
	d.trip("join")
	return d.Dispatcher.Join(id, t)
}

func (d *sabotaged) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d.trip("next")
	next, ok := d.Dispatcher.Next(waiting)
	if !ok || !d.armed {
		return next, ok
	}
	switch d.where {
	case "too many":
		next.N++
	case "none":
		next.N = 0
	case "nobody":
		next.To = nil
	case "a stranger":
		next.To = []dispatch.ID{99}
	case "another lane":
		next.Lane = 7
	}
	return next, ok
}

// A dispatcher of a user's own runs on whatever goroutine brings the news. What goes
// wrong there fails the stage that it belongs to, at once, and nobody else.
func TestTroubleInTheDispatcher(t *testing.T) {
	for _, where := range []string{"join", "ask", "leave", "demand", "lane", "next",
		"too many", "none", "nobody", "a stranger", "another lane"} {
		bubble(t, where, func(t *testing.T) {
			d := &sabotaged{Dispatcher: dispatch.Partition(2, func(i int) int { return i }), where: where}
			src := stage.NewSource(func(ctx context.Context, n int) ([]int, error) {
				if d.armed {
					<-ctx.Done() // it would wait for ever for its next event
					return nil, ctx.Err()
				}
				d.armed = true
				return upTo(0, 6), nil
			})
			src.Dispatcher = d
			sink, _ := keeper()
			sub := stage.Connect(src, sink, stage.InPartition(0), stage.MaxDemand(2), stage.Temporary)
			srcWait, _ := start(t, src)
			sinkWait, stop := start(t, sink)
			synctest.Wait()
			if up, err := src.Attach(stage.Terms{Partition: 1}, &reader{}); err == nil {
				up.Cancel(stage.Cancel[int]{})
			}
			err := srcWait()
			require.Error(t, err)
			require.Equal(t, "failed", src.Inspect().State)
			var p *stage.PanicError
			require.ErrorAs(t, err, &p)
			<-src.Done()
			<-sub.Done()
			require.Equal(t, stage.Failed, sub.Ending().Reason)
			require.Equal(t, "running", sink.Inspect().State, "the sink is not to blame")
			stop()
			require.ErrorIs(t, sinkWait(), context.Canceled)
			i := src.Inspect()
			require.Equal(t, i.Out, i.Discarded[stage.DiscardFailed]+sink.Inspect().In, "every event is accounted for")
		})
	}
}

// A gate whose dispatcher fails behind its back ends too, also when no input comes.
func TestTroubleInTheDispatcherOfAGate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		d := &sabotaged{Dispatcher: dispatch.Demand[int](), where: "ask"}
		g := stage.NewGate(stage.Map(double))
		g.Dispatcher = d
		src := idle()
		sub := stage.Connect(src, g)
		srcWait, stop := start(t, src)
		gateWait, _ := start(t, g)
		synctest.Wait()
		d.armed = true
		require.Error(t, read(t, g).Ask(1, 0))
		var p *stage.PanicError
		require.ErrorAs(t, gateWait(), &p)
		<-sub.Done()
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
		stop()
		require.ErrorIs(t, srcWait(), context.Canceled)
	})
}

// EDG-04: a panic of a partition function ends the stage that dispatches.
func TestPanicOfThePartitionFunction(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(100)
		src.Dispatcher = dispatch.Partition(2, func(i int) int { return i / (i - 7) })
		var lost int
		src.OnDiscard = func(_ string, n int) { lost += n }
		sink, got := keeper()
		stage.Connect(src, sink, stage.InPartition(0), stage.MaxDemand(4))
		err := stage.Run(t.Context(), src, sink)
		require.ErrorContains(t, err, "divide by zero")
		require.Equal(t, int(src.Inspect().Out), lost+len(got.get()))
	})
}

// A callback that panics, wherever it is called, fails its stage.
func TestPanicOfOnDiscard(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) { return make([]int, 10*n), nil })
		src.Buffer = stage.KeepLast(1)
		src.OnDiscard = func(string, int) { panic("boom") }
		sink, _ := keeper()
		stage.Connect(src, sink)
		require.ErrorContains(t, stage.Run(t.Context(), src, sink), "boom")
		require.Equal(t, "failed", src.Inspect().State)
	})
}

type badReceiver struct {
	reader
	in string
}

func (r *badReceiver) Opened()                  { r.trip("opened") }
func (r *badReceiver) Deliver(stage.Batch[int]) { r.trip("deliver") }
func (r *badReceiver) Ended(stage.Ending)       { r.trip("ended") }

func (r *badReceiver) trip(where string) {
	if r.in == where {
		panic("boom")
	}
}

// A receiver of a user's own that panics loses its subscription. The producer lives.
func TestPanicOfAReceiver(t *testing.T) {
	for _, where := range []string{"opened", "deliver", "ended"} {
		bubble(t, where, func(t *testing.T) {
			src := counter(100)
			other := read(t, src)
			wait, _ := start(t, src)
			up, err := src.Attach(stage.Terms{Partition: dispatch.NoPartition}, &badReceiver{in: where})
			require.NoError(t, err)
			require.NoError(t, up.Ask(1, 0))
			synctest.Wait()
			if where != "ended" {
				require.Len(t, src.Inspect().Subscribers, 1, "only the other is left")
			}
			up.Cancel(stage.Cancel[int]{})
			require.NoError(t, other.Ask(100, 0))
			synctest.Wait()
			require.NoError(t, other.Ack(int64(len(other.events()))))
			require.NoError(t, wait())
			require.GreaterOrEqual(t, len(other.events()), 99)
		})
	}
}

// What a failed consumer had not processed goes to another one, marked with how often
// a handler has had it; the first fails again and again.
func TestFailureGivesBack(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(8)
		other := read(t, src)
		wait, stop := start(t, src)
		for range 3 {
			sink := stage.NewSink(func(context.Context, []int) error { return errOops })
			stage.Connect(src, sink, stage.MaxDemand(8), stage.MinDemand(5))
			require.ErrorIs(t, sink.Run(t.Context()), errOops)
		}
		require.NoError(t, other.Ask(8, 0))
		synctest.Wait()
		batches := other.batches.get()
		require.Equal(t, stage.Batch[int]{Events: []int{0}, Redelivered: true, Attempts: 3}, batches[0])
		require.Equal(t, upTo(0, 8), other.events())
		require.Zero(t, batches[len(batches)-1].Attempts)
		stop()
		require.NoError(t, other.Ack(8))
		_ = wait()
	})
}

// At most once: what the failed one had is gone, and counted.
func TestAtMostOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(8)
		sink := stage.NewSink(func(context.Context, []int) error { return errOops })
		stage.Connect(src, sink, stage.MaxDemand(8), stage.AtMostOnce())
		require.ErrorIs(t, stage.Run(t.Context(), src, sink), errOops)
		require.Equal(t, map[string]int64{stage.DiscardAtMostOnce: 8}, src.Inspect().Discarded)
	})
}

// A consumer that breaks a rule loses its subscription, and both ends know.
func TestRulesOfTheConsumer(t *testing.T) {
	f := func(name string, breach func(r *reader) error) {
		bubble(t, name, func(t *testing.T) {
			src := counter(10)
			r := read(t, src)
			wait, stop := start(t, src)
			require.NoError(t, r.Ask(5, 0))
			synctest.Wait()
			require.Error(t, breach(r))
			require.Equal(t, stage.Refused, r.endings.get()[0].Reason)
			require.NoError(t, r.Ask(5, 5), "after the end nothing happens")
			require.Len(t, r.events(), 5)
			other := read(t, src)
			require.NoError(t, other.Ask(10, 0))
			synctest.Wait()
			r.Cancel(stage.Cancel[int]{Acked: 3, Rest: []stage.Returned[int]{{Event: 3}, {Event: 4}}})
			require.NoError(t, other.Ack(int64(len(other.events()))))
			stop()
			_ = wait()
			require.NotContains(t, src.Inspect().Discarded, stage.DiscardKept)
		})
	}
	f("ask for nothing", func(r *reader) error { return r.Ask(0, 0) })
	f("ask for less", func(r *reader) error { return r.Ask(-9, 0) })
	f("ack what was not sent", func(r *reader) error { return r.Ack(6) })
	f("ask and ack what was not sent", func(r *reader) error { return r.Ask(1, 6) })
}

// A consumer that keeps what it should give back is found out, and one that gives back
// more than it had gives back what it had.
func TestWhatAConsumerGivesBack(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1 << 30)
		wait, stop := start(t, src)
		a, b := read(t, src), read(t, src)
		require.NoError(t, a.Ask(5, 0))
		require.NoError(t, b.Ask(5, 0))
		synctest.Wait()
		a.Cancel(stage.Cancel[int]{Acked: 1, Rest: []stage.Returned[int]{{Event: 1}}})
		b.Cancel(stage.Cancel[int]{Acked: 5, Rest: make([]stage.Returned[int], 1000)})
		b.Cancel(stage.Cancel[int]{Acked: 5, Rest: make([]stage.Returned[int], 1000)})
		i := src.Inspect()
		require.Equal(t, 1, i.Buffered)
		require.Equal(t, map[string]int64{stage.DiscardKept: 3}, i.Discarded)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// A producer that sends more than was asked for loses the subscription, and is told:
// what came before is processed (DEM-22).
func TestProducerBeyondCredit(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := &byHand{}
		sink, got := keeper()
		sub := stage.Connect[int](src, sink, stage.MaxDemand(4))
		wait, _ := start(t, sink)
		synctest.Wait()
		src.deliver(1, 2, 3)
		src.deliver(upTo(0, 90)...)
		require.ErrorIs(t, wait(), stage.ErrCreditExceeded)
		require.Equal(t, []int{1, 2, 3}, got.get())
		require.Equal(t, stage.Refused, sub.Ending().Reason)
		cancel := src.cancels.get()[0]
		require.False(t, cancel.Drain)
		require.Contains(t, cancel.Reason, "credit exceeded")
		src.deliver(5) // nobody minds
		src.end(stage.Cancelled, nil)
		require.Equal(t, []int{1, 2, 3}, got.get())
	})
}

// EDG-08: the batch is the handler's own for the call, and what it does to it or keeps of it
// touches neither what goes back nor what others get.
func TestHandlersMayDoAsTheyLikeWithTheirBatch(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(64)
		src.Dispatcher = dispatch.Broadcast[int]()
		var kept [][]int
		vandal := stage.NewSink(func(_ context.Context, events []int) error {
			kept = append(kept, events)
			for i := range events {
				events[i] = -1
			}
			_ = append(events, -2, -3, -4, -5, -6, -7, -8)
			return nil
		})
		same := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
			out := append(events, events...)
			for i := range events {
				out[i] += 1000
			}
			return out[:len(events)], nil // its own batch, changed
		})
		sink, got := keeper()
		failing := stage.NewSink(func(_ context.Context, events []int) error {
			clear(events)
			return errOops
		})
		failSrc := counter(64)
		stage.Connect(src, vandal, stage.MaxDemand(8))
		stage.Connect(src, same, stage.MaxDemand(8))
		stage.Connect(same, sink, stage.MaxDemand(3))
		require.NoError(t, stage.Run(t.Context(), src, vandal, same, sink))
		want := upTo(1000, 1064)
		require.Equal(t, want, got.get())

		stage.Connect(failSrc, failing, stage.MaxDemand(8))
		r := read(t, failSrc)
		wait, stop := start(t, failSrc)
		require.ErrorIs(t, failing.Run(t.Context()), errOops)
		require.NoError(t, r.Ask(64, 0))
		synctest.Wait()
		require.Equal(t, upTo(0, 64), r.events())
		require.NoError(t, r.Ack(64))
		_ = wait()
		stop()
	})
}
