package stage

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// CSV-03 and CSV-05, for any slots and any order in which workers end: the free ones are
// asked for when they are as many as max minus min, all of them at once.
func TestSlotModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 50).Draw(t, "max")
		least := rapid.Int64Range(0, most-1).Draw(t, "min")
		var c consumer[int]
		in := &inflow[int]{window: newWindow(Terms{MaxDemand: most, MinDemand: least}), lent: newLent[int]()}
		c.subs = append(c.subs, in)
		open, freed, sent := in.window.Start(), int64(0), 0
		require.Equal(t, most, open)
		var working []int64
		for range rapid.IntRange(0, 200).Draw(t, "ends") {
			if room := int(open); room > 0 {
				n := rapid.IntRange(0, room).Draw(t, "arrive")
				require.True(t, c.deliver(in, Batch[int]{Events: make([]int, n)}))
				open, sent = open-int64(n), sent+n
				working = append(working, lendAll(&c)...)
				require.Equal(t, most, open+freed+int64(len(working)))
			}
			if len(working) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(working)-1).Draw(t, "who")
			ask, ok := c.finish(in, working[i], false)
			require.True(t, ok)
			working = slices.Delete(working, i, i+1)
			freed++
			want := int64(0)
			if most-freed <= least {
				want, freed = freed, 0
			}
			require.Equal(t, want, ask)
			open += ask
		}
		require.False(t, c.deliver(in, Batch[int]{Events: make([]int, open+1)}), "no more than there are slots")
	})
}

// lendAll lends everything that has arrived, and returns the positions.
func lendAll(c *consumer[int]) (at []int64) {
	for {
		t, _, ok := c.next()
		if !ok {
			return at
		}
		first := c.lend()
		for i := range t.events {
			at = append(at, first+int64(i))
		}
	}
}

// CSV-25: when a subscription comes to its end, in whatever way, nothing more is asked
// for, and it is over when the last worker has ended, exactly then.
func TestNothingIsFreedAfterTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 20).Draw(t, "max")
		var c consumer[int]
		in := &inflow[int]{
			mode:   rapid.SampledFrom([]CancelMode{Permanent, Transient, Temporary, Joint}).Draw(t, "mode"),
			window: newWindow(Terms{MaxDemand: most, MinDemand: rapid.Int64Range(0, most-1).Draw(t, "min")}),
			lent:   newLent[int](),
		}
		other := &inflow[int]{mode: Temporary, window: newWindow(Terms{MaxDemand: 1})}
		c.subs = append(c.subs, in, other)
		in.window.Start()
		c.deliver(in, Batch[int]{Events: make([]int, rapid.Int64Range(1, most).Draw(t, "arrive"))})
		working := lendAll(&c)
		ended := false
		for len(working) > 0 {
			switch rapid.SampledFrom([]string{"end", "cancel", "finish"}).Draw(t, "step") {
			case "end":
				c.end(in, Ending{Reason: rapid.SampledFrom([]Reason{Completed, Shutdown, Cancelled}).Draw(t, "reason")})
				ended = true
			case "cancel":
				in.leaving = true
			case "finish":
				i := rapid.IntRange(0, len(working)-1).Draw(t, "who")
				ask, ok := c.finish(in, working[i], false)
				require.True(t, ok)
				require.True(t, ask == 0 || !ended && !in.leaving)
				working = slices.Delete(working, i, i+1)
			}
			_, over, ok := c.next()
			require.False(t, ok)
			if len(working) > 0 || !ended {
				require.Empty(t, over)
				require.Contains(t, c.subs, in)
			} else {
				require.Equal(t, []*inflow[int]{in}, over)
				require.NotContains(t, c.subs, in)
				require.Equal(t, in.mode == Permanent || in.mode == Joint, c.over != nil)
			}
		}
		ask, ok := c.finish(in, 1, false)
		require.True(t, ask == 0 && !ok, "nothing ends twice")
	})
}

// One that does not end well ends the stage at once, and does not wait for workers;
// where it may not, it waits.
func TestAbnormalEndOfALentSubscription(t *testing.T) {
	for mode, waits := range map[CancelMode]bool{Permanent: false, Transient: false, Joint: false, Temporary: true} {
		c := consumer[int]{}
		in := &inflow[int]{mode: mode, window: newWindow(Terms{MaxDemand: 4}), lent: newLent[int]()}
		c.subs = append(c.subs, in)
		in.window.Start()
		c.deliver(in, Batch[int]{Events: []int{1, 2}})
		require.Len(t, lendAll(&c), 2)
		c.end(in, Ending{Reason: Lost})
		_, ended, _ := c.next()
		require.Equal(t, waits, len(ended) == 0, "mode %d", mode)
		require.Equal(t, waits, c.over == nil)
		_, _ = c.finish(in, 1, false)
		_, _ = c.finish(in, 2, false)
		_, ended, _ = c.next()
		require.Equal(t, waits, len(ended) == 1)
	}
}

// CSV-11: a restart is tolerated when those no older than the window, this one included,
// are no more than the maximum.
func TestRestartWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(-2, 6).Draw(t, "restarts")
		within := time.Duration(rapid.IntRange(1, 5).Draw(t, "within")) * time.Second
		r := newRestarts(Tolerance{most, within})
		now := time.Now()
		var all []time.Time
		for _, ms := range rapid.SliceOf(rapid.SampledFrom([]int{0, 1, 250, 999, 1000, 1001, 2000, 5000})).Draw(t, "gaps") {
			now = now.Add(time.Duration(ms) * time.Millisecond)
			all = append(all, now)
			count := 0
			for _, at := range all {
				if !at.Add(within).Before(now) {
					count++
				}
			}
			require.Equal(t, count <= most, r.allow(now))
			require.Len(t, r.at, count, "what does not count any more is forgotten")
			require.Equal(t, min(time.Duration(10<<min(count-1, 20))*time.Millisecond, time.Second), r.pause())
		}
	})
}

// CSV-10: the defaults, and the least that there is.
func TestTolerance(t *testing.T) {
	f := func(given, want Tolerance) {
		t.Helper()
		require.Equal(t, want, newRestarts(given).tolerance)
	}
	f(Tolerance{}, Tolerance{3, 5 * time.Second})
	f(Tolerance{Restarts: -1}, Tolerance{0, 5 * time.Second})
	f(Tolerance{Restarts: 7}, Tolerance{7, 5 * time.Second})
	f(Tolerance{Within: time.Minute}, Tolerance{0, time.Minute})
	f(Tolerance{-5, -time.Second}, Tolerance{0, time.Second})
	f(Tolerance{2, time.Millisecond}, Tolerance{2, time.Second})
}

// One event that is never processed does not hold up a subscription whose others are,
// also when far more than may be unacknowledged come after it; without them it does.
func TestOneStuckEvent(t *testing.T) {
	p := newProducer(dispatch.Demand[int](), Unlimited())
	sub, err := p.join(Terms{Partition: dispatch.NoPartition}, nil, nil)
	require.NoError(t, err)
	require.NoError(t, p.ask(sub, math.MaxInt64, 0, nil))
	p.emit(make([]int, 3*maxUnacked))
	require.Equal(t, int64(maxUnacked), sub.ledger.Sent())
	require.NoError(t, p.ack(sub, 0, []Range{{First: 2, Last: maxUnacked}}))
	require.Equal(t, int64(2*maxUnacked-1), sub.ledger.Sent())
	require.NoError(t, p.ack(sub, 0, []Range{{First: 2, Last: 2*maxUnacked - 1}}))
	require.Equal(t, int64(3*maxUnacked-2), sub.ledger.Sent())
}

// What is told of ranges is held to what was sent, and ranges that touch what is
// acknowledged are acknowledged.
func TestRangesOfAConsumer(t *testing.T) {
	p := newProducer(dispatch.Demand[int](), Unlimited())
	sub, err := p.join(Terms{Partition: dispatch.NoPartition}, nil, nil)
	require.NoError(t, err)
	require.NoError(t, p.ask(sub, 10, 0, nil))
	p.emit(make([]int, 10))
	for _, r := range []Range{{First: 9, Last: 11}, {First: 5, Last: 4}, {First: 12, Last: 12}} {
		require.Error(t, p.ack(sub, 0, []Range{r}), "%v", r)
	}
	require.Zero(t, sub.done.Count())
	require.NoError(t, p.ack(sub, 2, []Range{{First: 3, Last: 4}, {First: -7, Last: 6}, {First: 9, Last: 9}}))
	require.Equal(t, int64(6), sub.ledger.Acked())
	require.Equal(t, []Range{{First: 9, Last: 9}}, sub.done.All())
	require.NoError(t, p.ack(sub, 3, nil), "what is known already is no news")
	p.fail(sub, Ending{Reason: Cancelled}, make([]Returned[int], 99))
	require.Equal(t, 3, p.store.len())
}
