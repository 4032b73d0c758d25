package stage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// DEM-16, DEM-17, BAT-01, BAT-11 and GAT-04 for any interleaving on two
// subscriptions: windows are independent, nothing is open beyond the maximum, events
// come in order in batches of at most max - min, and what is held is not asked for.
func TestConsumerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c consumer[int]
		type side struct {
			in                   *inflow[int]
			asked, sent, handled int64
		}
		sides := map[*inflow[int]]*side{}
		var order []*inflow[int]
		for range 2 {
			maximum := rapid.Int64Range(1, 12).Draw(t, "max")
			in := &inflow[int]{window: newWindow(Terms{MaxDemand: maximum, MinDemand: rapid.Int64Range(0, maximum-1).Draw(t, "min")})}
			c.subs, order = append(c.subs, in), append(order, in)
			sides[in] = &side{in: in, asked: in.window.Start()}
		}
		pick := func(t *rapid.T) *side { return sides[rapid.SampledFrom(order).Draw(t, "subscription")] }
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(t *rapid.T) {
				s := pick(t)
				events := make([]int, rapid.Int64Range(0, s.asked-s.sent).Draw(t, "n"))
				for i := range events {
					s.sent++
					events[i] = int(s.sent)
				}
				require.True(t, c.deliver(s.in, Batch[int]{Events: events}))
			},
			"too much": func(t *rapid.T) {
				s := pick(t)
				require.False(t, c.deliver(s.in, Batch[int]{Events: make([]int, s.asked-s.sent+1)}))
			},
			"handle": func(t *rapid.T) {
				next, _, ok := c.next()
				events := next.events
				if !ok {
					return
				}
				s := sides[c.hand.in]
				require.LessOrEqual(t, int64(len(events)), s.in.window.Batch())
				for _, e := range events {
					s.handled++
					require.Equal(t, int(s.handled), e)
				}
				hold := rapid.Bool().Draw(t, "hold")
				_, ask, _ := c.done(len(events), hold)
				require.True(t, !hold || ask == 0)
				s.asked += ask
			},
			"release": func(t *rapid.T) { s := pick(t); s.asked += s.in.release() },
			"": func(t *rapid.T) {
				for _, s := range sides {
					require.LessOrEqual(t, s.asked-s.handled, s.in.window.Max())
					require.Equal(t, s.asked, s.in.window.Sent())
					require.Equal(t, int(s.sent-s.handled), s.in.events.len())
				}
			},
		})
	})
}

// ACC-04 and DBX-18: whatever subscribers with and without selectors do, nobody gets
// more than it has asked for, each gets exactly what it keeps of what went out since it
// joined, and as many events go out as everybody has room for: selectors hold up nobody.
// What is left out is asked for again, and is nobody's loss.
func TestSelectorModel(t *testing.T) {
	type side struct {
		sub         *outflow[int]
		keep        func(int) bool
		asked, sent int64
		got, due    []int
	}
	rapid.Check(t, func(t *rapid.T) {
		p := newProducer(dispatch.Broadcast[int](), Unlimited())
		var sides []*side
		emitted, out := 0, 0 // out: the events below it have gone out
		pick := func(t *rapid.T) *side {
			if len(sides) == 0 {
				t.Skip("nobody is there")
			}
			return rapid.SampledFrom(sides).Draw(t, "who")
		}
		// serve lets the events go out one by one that everybody has room for.
		serve := func() {
			for out < emitted && len(sides) > 0 {
				for _, s := range sides {
					if s.asked == s.sent {
						return
					}
				}
				for _, s := range sides {
					if s.keep(out) {
						s.sent++
						s.due = append(s.due, out)
					}
				}
				out++
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if len(sides) == 4 {
					t.Skip("enough")
				}
				n := rapid.IntRange(0, 3).Draw(t, "keeps")
				s := &side{keep: func(e int) bool { return e%4 < n }}
				keep := s.keep
				if n == 0 {
					s.keep, keep = func(int) bool { return true }, nil
				}
				var err error
				s.sub, err = p.join(Terms{Partition: dispatch.NoPartition}, keep, nil)
				require.NoError(t, err)
				sides = append(sides, s)
			},
			"ask": func(t *rapid.T) {
				s, n := pick(t), rapid.Int64Range(1, 8).Draw(t, "n")
				require.NoError(t, p.ask(s.sub, n, 0, nil))
				s.asked += n
			},
			"ack": func(t *rapid.T) {
				s := pick(t)
				require.NoError(t, p.ack(s.sub, s.sub.ledger.Sent(), nil))
			},
			"leave": func(t *rapid.T) {
				s := pick(t)
				p.leave(s.sub, Ending{Reason: Cancelled})
				sides = slices.DeleteFunc(sides, func(o *side) bool { return o == s })
			},
			"emit": func(t *rapid.T) {
				n := rapid.IntRange(0, 12).Draw(t, "n")
				events := make([]int, n)
				for i := range events {
					events[i] = emitted + i
				}
				emitted += n
				p.emit(events)
			},
			"": func(t *rapid.T) {
				serve()
				for _, o := range p.todo {
					for _, s := range sides {
						if s.sub == o.sub {
							s.got = append(s.got, o.batch.Events...)
						}
					}
				}
				p.todo = p.todo[:0]
				p.store.sweep()
				for _, s := range sides {
					require.Equal(t, s.due, s.got)
					require.Equal(t, s.sent, s.sub.ledger.Sent())
					require.LessOrEqual(t, s.sent, s.asked)
				}
				require.Equal(t, emitted-out, p.store.len(), "nothing is lost, and nobody is held up")
				require.Empty(t, p.discarded)
				least := int64(0)
				for i, s := range sides {
					if open := s.asked - s.sent; i == 0 || open < least {
						least = open
					}
				}
				require.GreaterOrEqual(t, p.wanted(), max(least-int64(p.store.len()), 0), "what is left out is told again")
			},
		})
	})
}

// ACC-04: held asks, when they are forwarded, have the same deliveries and leave the same
// demand as if they had never been held, with whatever waits.
func TestForwardedIsAsIfNeverHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"demand", "broadcast", "partition"}).Draw(t, "kind")
		held, free := newProducer(newDispatcher(kind, 3), Unlimited()), newProducer(newDispatcher(kind, 3), Unlimited())
		held.holding = true
		var pairs [][2]*outflow[int]
		for i := range 3 {
			terms := Terms{Partition: dispatch.NoPartition}
			if kind == "partition" {
				terms.Partition = i
			}
			a, err := held.join(terms, nil, nil)
			require.NoError(t, err)
			b, err := free.join(terms, nil, nil)
			require.NoError(t, err)
			pairs = append(pairs, [2]*outflow[int]{a, b})
		}
		buffered := upTo(rapid.IntRange(0, 20).Draw(t, "buffered"))
		held.emit(buffered)
		free.emit(buffered)
		for range rapid.IntRange(0, 30).Draw(t, "asks") {
			i, n := rapid.IntRange(0, 2).Draw(t, "who"), rapid.Int64Range(1, 8).Draw(t, "n")
			require.NoError(t, held.ask(pairs[i][0], n, 0, nil))
			require.NoError(t, free.ask(pairs[i][1], n, 0, nil))
			require.Zero(t, held.unmet)
		}
		held.forward()
		require.Equal(t, free.unmet, held.unmet)
		require.Equal(t, free.wanted(), held.wanted())
		require.Equal(t, deliveries(&free), deliveries(&held))
		held.emit(upTo(7))
		free.emit(upTo(7))
		require.Equal(t, deliveries(&free), deliveries(&held))
	})
}

func upTo(n int) []int {
	events := make([]int, n)
	for i := range events {
		events[i] = i
	}
	return events
}

// deliveries are the batches that are to be handed over, with the IDs of who gets them.
func deliveries(p *producer[int]) (all []string) {
	for _, o := range p.todo {
		if len(o.batch.Events) > 0 {
			all = append(all, fmt.Sprint(o.sub.id, " <- ", o.batch.Events))
		}
	}
	return all
}
