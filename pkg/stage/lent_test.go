package stage

import (
	"fmt"
	"maps"
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

// outOfOrder is a producer core, and a consumer core whose workers end in any order.
// Between them messages may overtake each other, as those of several goroutines do.
type outOfOrder struct {
	*rapid.T
	p       producer[int]
	c       consumer[int]
	sub     *outflow[int]
	in      *inflow[int]
	working map[int64]int  // by position
	news    []func() error // what is told and has not arrived
	emitted int
	done    map[int]bool
	back    map[int]int // attempts of those that came back
	asked   int64
	sent    int64
}

// TestOutOfOrder: whatever the order in which workers end and in which what they tell
// arrives, and however often the stage fails, each event is processed once or is given
// back, with its attempts; AtMostOnce counts exactly the others; no more is sent than was
// asked for; and when all has arrived, the producer knows exactly what is processed.
func TestOutOfOrder(t *testing.T) { rapid.Check(t, checkOutOfOrder) }

func checkOutOfOrder(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"demand", "partition"}).Draw(t, "dispatcher")
	m := &outOfOrder{T: t, p: newProducer(newDispatcher(kind, 1), Unlimited()), done: map[int]bool{}, back: map[int]int{}}
	m.join()
	t.Repeat(map[string]func(*rapid.T){
		"emit": func(t *rapid.T) {
			n := rapid.IntRange(1, 9).Draw(t, "n")
			events := make([]int, n)
			for i := range events {
				events[i] = m.emitted
				m.emitted++
			}
			m.p.emit(events)
			m.carryOut()
		},
		"finish": m.finish,
		"arrive": m.arrive,
		"fail":   m.fail,
		"":       m.law,
	})
	m.catchUp()
	m.law(t)
	m.told()
	m.fail(t)
}

func (m *outOfOrder) join() {
	terms := Terms{
		MaxDemand: rapid.Int64Range(1, 12).Draw(m.T, "max"), Partition: dispatch.NoPartition,
		AtMostOnce: rapid.Bool().Draw(m.T, "at most once"),
	}
	if m.p.dispatcher.Kind() == "partition" {
		terms.Partition = 0
	}
	terms.MinDemand = rapid.Int64Range(0, terms.MaxDemand-1).Draw(m.T, "min")
	var err error
	m.sub, err = m.p.join(terms, nil, nil)
	require.NoError(m, err)
	m.c = consumer[int]{}
	m.in = &inflow[int]{window: newWindow(terms), terms: terms, lent: newLent[int]()}
	m.c.subs = append(m.c.subs, m.in)
	m.working, m.news = map[int64]int{}, nil
	m.asked, m.sent = m.in.window.Start(), 0
	require.NoError(m, m.p.ask(m.sub, m.asked, 0, nil))
	m.carryOut()
}

func (m *outOfOrder) carryOut() {
	for _, o := range m.p.todo {
		if o.batch.Events == nil {
			continue
		}
		m.sent += int64(len(o.batch.Events))
		require.LessOrEqual(m, m.sent, m.asked)
		for _, e := range o.batch.Events {
			require.False(m, m.done[e], "%d is processed and was sent again", e)
			attempts, back := m.back[e]
			require.Equal(m, back, o.batch.Redelivered, "%d", e)
			require.Equal(m, attempts, o.batch.Attempts, "%d", e)
		}
		require.True(m, m.c.deliver(m.in, o.batch))
	}
	m.p.todo = m.p.todo[:0]
	m.p.store.sweep()
	for {
		t, _, ok := m.c.next()
		if !ok {
			return
		}
		events := slices.Clone(t.events) // they are valid until they are lent
		first := m.c.lend()
		for i, e := range events {
			m.working[first+int64(i)] = e
		}
	}
}

func (m *outOfOrder) any(t *rapid.T) int64 {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.working))).Draw(t, "position")
}

func (m *outOfOrder) finish(t *rapid.T) {
	if len(m.working) == 0 {
		return
	}
	at := m.any(t)
	require.False(t, m.done[m.working[at]])
	m.done[m.working[at]] = true
	delete(m.working, at)
	ask, ok := m.c.finish(m.in, at, false)
	require.True(t, ok)
	acked, done := m.in.progress()
	m.asked += ask
	sub := m.sub
	m.news = append(m.news, func() error {
		if ask > 0 {
			return m.p.ask(sub, ask, acked, done)
		}
		return m.p.ack(sub, acked, done)
	})
}

func (m *outOfOrder) arrive(t *rapid.T) {
	if len(m.news) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.news)-1).Draw(t, "message")
	require.NoError(t, m.news[i]())
	m.news = slices.Delete(m.news, i, i+1)
	m.carryOut()
}

func (m *outOfOrder) catchUp() {
	for len(m.news) > 0 {
		m.arrive(m.T)
	}
}

// fail ends the stage: what is not processed goes back, or is counted. What was told
// before may still arrive after that.
func (m *outOfOrder) fail(t *rapid.T) {
	acked, done := m.in.progress()
	rest, had := m.c.rest(m.in, 0)
	require.Len(t, rest, len(m.working))
	var tried []Range
	if at := slices.Sorted(maps.Keys(m.working)); len(at) > 0 {
		tried = []Range{{First: at[0], Last: at[len(at)-1]}}
	}
	require.Equal(t, tried, had, "what workers have, and what is processed in between")
	lost := m.p.discarded[DiscardAtMostOnce]
	for i, at := range slices.Sorted(maps.Keys(m.working)) {
		e := m.working[at]
		require.Equal(t, Returned[int]{e, m.back[e] + 1}, rest[i])
		if m.sub.terms.AtMostOnce {
			m.done[e] = true // it is gone
			delete(m.back, e)
		} else {
			m.back[e] = rest[i].Attempts
		}
	}
	require.NoError(t, m.p.book(m.sub, acked, done))
	m.p.fail(m.sub, Ending{Reason: Cancelled}, rest)
	if m.sub.terms.AtMostOnce {
		require.Equal(t, lost+int64(len(rest)), m.p.discarded[DiscardAtMostOnce])
	}
	late := m.news
	m.join()
	for _, tell := range late {
		require.NoError(t, tell(), "what comes late changes nothing")
	}
	m.carryOut()
}

// law: every event is in one place.
func (m *outOfOrder) law(t *rapid.T) {
	require.Equal(t, m.emitted, len(m.done)+len(m.working)+m.p.store.len())
	require.Empty(t, m.p.discarded[DiscardKept])
	require.LessOrEqual(t, int64(len(m.working)), m.in.terms.MaxDemand)
	require.LessOrEqual(t, m.sub.ledger.Acked(), m.in.lent.acked)
}

// told: the producer knows what is processed.
func (m *outOfOrder) told() {
	acked, done := m.in.progress()
	require.Equal(m, acked, m.sub.ledger.Acked())
	require.Equal(m, fmt.Sprint(done), fmt.Sprint(m.sub.done.All()))
	for at := range m.working {
		require.Greater(m, at, acked)
		require.False(m, m.sub.done.Contains(at))
	}
	require.Equal(m, m.sub.ledger.Unacked()-m.sub.done.Count(), int64(len(m.working)))
}

func FuzzOutOfOrder(f *testing.F) {
	f.Add([]byte("emit finish retry arrive fail"))
	f.Add(slices.Repeat([]byte{0x07, 0xf1, 0x02, 0x80, 0x31}, 300))
	f.Fuzz(rapid.MakeFuzz(checkOutOfOrder))
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
