package stage

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
