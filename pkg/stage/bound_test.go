package stage

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
)

// deaf is a consumer that does nothing with what it is told.
type deaf struct{}

func (deaf) Opened()            {}
func (deaf) Deliver(Batch[int]) {}
func (deaf) Ended(Ending)       {}

// While a handler runs, what OnSubscribers is to be told of waits, and no more of it than
// can be kept: then nobody else may subscribe. Nothing of it is left out.
func TestSubscribersComeAndGoWhileTheHandlerIsBusy(t *testing.T) {
	f := func(name string, start func(ctx context.Context, busy chan struct{}, hook func(SubscriberChange)) (Outlet[int], *outlet[int], Runner)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				busy := make(chan struct{})
				var told []int
				out, loop, runner := start(ctx, busy, func(c SubscriberChange) { told = append(told, c.Count) })
				done := make(chan error, 1)
				go func() { done <- Run(ctx, runner) }()
				stays, err := out.Attach(Terms{Partition: dispatch.NoPartition}, deaf{})
				require.NoError(t, err)
				require.NoError(t, stays.Ask(1, 0))
				synctest.Wait()
				changes := 1 // that of the one that stays, whether it is told by now or not
				for ; err == nil && changes < 2*maxCalls; changes += 2 {
					var up Upstream[int]
					if up, err = out.Attach(Terms{Partition: dispatch.NoPartition}, deaf{}); err != nil {
						break
					}
					up.Cancel(Cancel[int]{})
					require.LessOrEqual(t, loop.untold, maxCalls+1)
				}
				require.ErrorIs(t, err, ErrBusy)
				require.Greater(t, changes, maxCalls)
				close(busy)
				synctest.Wait()
				require.Len(t, told, changes)
				for i, count := range told {
					require.Equal(t, 1+i%2, count, i)
				}
				_, err = out.Attach(Terms{Partition: dispatch.NoPartition}, deaf{})
				require.NoError(t, err)
				stop()
				require.ErrorIs(t, <-done, context.Canceled)
			})
		})
	}
	f("source", func(_ context.Context, busy chan struct{}, hook func(SubscriberChange)) (Outlet[int], *outlet[int], Runner) {
		s := NewSource(func(context.Context, int) ([]int, error) { <-busy; return nil, nil })
		s.OnSubscribers = hook
		return s, s.out, s
	})
	f("gate", func(ctx context.Context, busy chan struct{}, hook func(SubscriberChange)) (Outlet[int], *outlet[int], Runner) {
		s := NewSource[int](nil)
		_ = s.Push(1)
		g := NewGate(func(context.Context, []int) ([]int, error) { <-busy; return nil, nil })
		g.OnSubscribers = hook
		Connect(s, g)
		return g, g.out, Group(s, g)
	})
}

// Subscriptions that have ended wait for a busy handler, and no more of them than can be
// kept.
func TestSubscriptionsThatWaitForTheirEnd(t *testing.T) {
	sink := NewSink(func(context.Context, []int) error { return nil })
	for i := range maxCalls {
		in := &inflow[int]{name: fmt.Sprint(i), ending: &Ending{Reason: Completed}}
		sink.in.core.subs = append(sink.in.core.subs, in)
	}
	_, err := Subscribe(t.Context(), NewSource[int](nil), sink)
	require.ErrorIs(t, err, ErrBusy)
	sink.in.core.subs = sink.in.core.subs[1:]
	_, err = Subscribe(t.Context(), NewSource[int](nil), sink)
	require.NoError(t, err)
}

// However many asks are held, they take no more room than so many, and none is lost: the
// first ones pass one by one (ACC-02), and those that have joined them with them.
func TestHeldAsksAreBounded(t *testing.T) {
	p := newProducer(dispatch.Broadcast[int](), KeepLast(10))
	p.holding = true
	var subs []*outflow[int]
	for range 3 {
		sub, err := p.join(Terms{Partition: dispatch.NoPartition}, nil, deaf{})
		require.NoError(t, err)
		subs = append(subs, sub)
	}
	want := make([]int64, len(subs))
	for i := range 10 * maxHeld {
		n := i % len(subs)
		if i < maxHeld {
			n = i % 2 // the last one has none of its own until it is too late
		}
		require.NoError(t, p.ask(subs[n], int64(i+1), 0, nil))
		want[n] += int64(i + 1)
	}
	require.LessOrEqual(t, len(p.held), maxHeld+len(subs))
	for i := range maxHeld - 2 {
		require.Equal(t, heldAsk[int]{subs[i%2], int64(i + 1)}, p.held[i])
	}
	for i, sub := range subs {
		require.Equal(t, want[i], p.heldOf(sub))
	}
	p.forward()
	for i, sub := range subs {
		require.Equal(t, want[i], sub.ledger.Granted())
	}
}
