package stagetest

import (
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

var demandScenes = []scene{
	{"cycle by default", "DEM-01 DEM-02", cycle(nil, []int{1000, 250, 250, 250}, 250, 250, 250, 250, 250)},
	{"cycle of max 10", "DEM-03 DEM-04", cycle([]stage.Option{stage.MaxDemand(10)}, []int{10, 3, 3, 3}, 3, 3, 3, 1, 3)},
	{"cycle of 10 and 5", "DEM-05", cycle(demand(10, 5), []int{10, 5, 5, 5}, 5, 5, 5, 5, 5)},
	{"cycle of 6 and 2", "DEM-06 DEM-12", cycle(demand(6, 2), []int{6, 4, 6, 4}, 4, 2, 4, 4, 2, 4)},
	{"cycle of 1 and 0", "DEM-07", cycle(demand(1, 0), []int{1, 1, 1, 1}, 1, 1, 1, 1, 1)},
	{"cycle of 100 and 80", "DEM-08", cycle(demand(100, 80), []int{100, 20, 20}, 20, 20, 20, 20, 20, 20)},
	{"cycle of 100 and 20", "DEM-09 BAT-01 BAT-03", cycle(demand(100, 20), []int{100, 80, 100, 80}, 80, 20, 80, 80, 20, 80)},
	{"cycle of 20 and 0", "DEM-10", cycle(demand(20, 0), []int{20, 20, 20}, 20, 20, 20, 20)},
	{"asks follow arrivals", "DEM-13 DEM-11 DEM-12 BAT-02", func(b *bench) { arrivals(b, demand(10, 5), 3, 2, 10, 16) }},
	{"asks follow arrivals by default", "DEM-14 DEM-11", func(b *bench) { arrivals(b, nil, 100, 3, 1000, 1300) }},
	{"what is not processed is not asked for again", "DEM-15", notProcessed},
	{"never more than asked", "DEM-16 DEM-23 BUF-06", neverMore},
	{"each subscription has its own demand", "DEM-17", ownDemand},
	{"an ask is remembered", "DEM-18 DEM-20 DEM-21 BUF-03 BUF-04 END-10 END-11", remembered},
	{"more than asked breaks the subscription", "DEM-22", tooMuch},
	{"nothing is no delivery", "BAT-08", nothing},
	{"everything once and in order", "BAT-11 DEM-16 BUF-05", inOrder},
	{"what is pulled and what is pushed", "END-12 BAT-11", pulledAndPushed},
	{"demand without bounds", "EDG-07", unbounded},
}

// cycle is a source that always fills and a sink that lets it, step by step.
func cycle(opts []stage.Option, asks []int, batches ...int) func(*bench) {
	return func(b *bench) {
		s := b.counter(endless)
		var sub *stage.Subscription
		var k *sink
		k = b.sink("sink", func([]int) error {
			if len(k.all()) == len(batches) {
				return stage.Stop
			}
			granted := int(sub.Info().Granted)
			if !b.saw(func() bool { return s.made >= granted }) {
				return errOops
			}
			return nil
		})
		sub = stage.Connect(s.out, k, opts...)
		b.run(s)
		require.NoError(b, b.run(k).wait())
		var sizes []int
		for _, batch := range k.all() {
			sizes = append(sizes, len(batch))
		}
		require.Equal(b, batches, sizes)
		require.Equal(b, asks, s.asked()[:len(asks)])
		k.inOrder()
	}
}

// arrivals pushes events n at a time, and looks at how many are asked for in all after
// times of them.
func arrivals(b *bench, opts []stage.Option, n, times int, before, after int64) {
	s, k := b.source(nil), b.sink("sink", nil)
	sub := stage.Connect(s.out, k, opts...)
	b.run(s)
	b.run(k)
	s.granted("sink", before)
	for i := range times {
		require.NoError(b, s.Push(upTo(i*n, i*n+n)...))
		k.has(i*n + n)
		b.eventually("it is processed", func() bool { return sub.Info().Acked == int64(i*n+n) })
		if i+1 < times {
			require.Equal(b, before, sub.Info().Granted)
		}
	}
	s.granted("sink", after)
	require.Len(b, k.all(), times, "a delivery for each push, and none joined")
}

func notProcessed(b *bench) {
	s, g := b.counter(endless), b.gate()
	k := b.sink("sink", func([]int) error { return g.pass() })
	sub := stage.Connect(s.out, k, demand(10, 5)...)
	b.run(s)
	b.run(k)
	k.has(5)
	b.eventually("everything has arrived", func() bool { return sub.Info().Received == 10 })
	require.EqualValues(b, 10, sub.Info().Granted)
	require.Equal(b, []int{10}, s.asked())
	g.release()
	k.has(15)
	require.Equal(b, 10, s.asked()[0])
}

// A source that makes five times as much. A reader is given what it asks for, in order.
func neverMore(b *bench) {
	next := 0
	s := b.source(func(demand int) ([]int, error) {
		next += 5 * demand
		return upTo(next-5*demand, next), nil
	})
	b.run(s)
	r := b.read(s.out, terms("reader"))
	asked := 0
	for _, n := range []int{6, 4, 1, 20, 6, 3} {
		r.ask(int64(n), int64(asked))
		asked += n
		require.Equal(b, upTo(0, asked), r.has(asked), "an ask of %d", n)
	}
	for _, d := range r.deliveries() {
		require.LessOrEqual(b, len(d.Events), 20)
		require.False(b, d.Redelivered)
	}
}

func ownDemand(b *bench) {
	one, two := b.source(nil), b.source(nil)
	seen := map[*stage.Subscription]int{}
	k := b.sink("sink", nil)
	first := stage.Connect(one.out, k, demand(10, 5)...)
	second := stage.Connect(two.out, k, demand(4, 0)...)
	b.run(one)
	b.run(two)
	b.run(k)
	one.granted("sink", 10)
	two.granted("sink", 4)
	require.NoError(b, one.Push(1, 2, 3, 4, 5))
	one.granted("sink", 15)
	require.NoError(b, two.Push(6, 7, 8))
	k.has(8)
	require.EqualValues(b, 4, second.Info().Granted, "one is still open")
	require.NoError(b, two.Push(9))
	two.granted("sink", 8)
	b.note(func() {
		for i, info := range k.infos {
			seen[info.Subscription] += len(k.batches[i])
		}
	})
	require.Equal(b, map[*stage.Subscription]int{first: 5, second: 4}, seen)
}

// What waits is served first and the rest is remembered. It is filled by whatever
// comes, without another ask.
func remembered(b *bench) {
	ready := false
	s := b.source(func(demand int) ([]int, error) {
		if !ready {
			return nil, nil
		}
		return make([]int, demand), nil
	})
	require.NoError(b, s.Push(1, 2, 3, 4, 5))
	b.run(s)
	r := b.read(s.out, terms("reader"))
	r.ask(4, 0)
	require.Equal(b, []int{1, 2, 3, 4}, r.has(4))
	require.Empty(b, s.asked(), "what waits was enough")
	r.ask(4, 4)
	require.Equal(b, []int{1, 2, 3, 4, 5}, r.has(5))
	b.await("the rest of it is asked for", func() bool { return len(s.demands) > 0 && s.demands[0] == 3 })
	require.NoError(b, s.Push(6))
	require.Equal(b, []int{1, 2, 3, 4, 5, 6}, r.has(6))
	b.await("the rest of that", func() bool { return s.demands[len(s.demands)-1] == 2 })
	b.note(func() { ready = true })
	require.NoError(b, s.Push(7))
	require.Equal(b, []int{1, 2, 3, 4, 5, 6, 7, 0}, r.has(8))
	require.EqualValues(b, 8, s.view("reader").Granted)
}

func tooMuch(b *bench) {
	h := &byHand{b: b}
	out := b.way(b.T, h)
	k := b.sink("sink", nil)
	sub := stage.Connect(out, k, demand(4, 2)...)
	p := b.run(k)
	b.await("it is asked", func() bool { return h.to != nil && h.asked.Load() == 4 })
	h.to.Deliver(stage.Batch[int]{Events: upTo(0, 7)})
	require.Equal(b, stage.Refused, b.done(sub).Reason)
	require.Error(b, p.wait())
	require.LessOrEqual(b, len(k.events()), 4, "what was not asked for is not handled")
	b.await("the producer is told", func() bool { return len(h.cancels) > 0 })
}

func nothing(b *bench) {
	times := 0
	s := b.source(func(int) ([]int, error) { times++; return []int{}, nil })
	k := b.sink("sink", nil)
	stage.Connect(s.out, k)
	b.run(s)
	b.run(k)
	b.await("it is asked", func() bool { return times > 0 })
	require.NoError(b, s.Push())
	require.NoError(b, s.Push(1))
	k.has(1)
	require.Equal(b, [][]int{{1}}, k.all())
}

// Sources that make too little or too much, and windows of all sizes.
func inOrder(b *bench) {
	const count = 2000
	for i := range 4 {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		max := 1 + rnd.IntN(300)
		min := rnd.IntN(max)
		next, open := 0, int64(0)
		s := b.source(func(demand int) ([]int, error) {
			n := 1 + rnd.IntN(2*demand)
			next += n
			return upTo(next-n, next), nil
		}, func(s *stage.Source[int]) { s.Buffer = stage.Unlimited() })
		var sub *stage.Subscription
		var k *sink
		k = b.sink("sink", func([]int) error {
			i := sub.Info()
			if open = i.Granted - i.Acked; open > int64(max) || len(k.events()) >= count {
				return stage.Stop
			}
			return nil
		})
		sub = stage.Connect(s.out, k, demand(max, min)...)
		b.run(s)
		require.NoError(b, b.run(k).wait())
		require.LessOrEqual(b, open, int64(max), "more is open than max demand")
		k.inOrder()
		for _, batch := range k.all() {
			require.LessOrEqual(b, len(batch), max-min)
		}
	}
}

// What is pulled and what is pushed have one order each, and nothing is lost.
func pulledAndPushed(b *bench) {
	s, k := b.counter(endless), b.sink("sink", nil)
	stage.Connect(s.out, k, demand(20, 10)...)
	b.run(s)
	b.run(k)
	for i := range 100 {
		require.NoError(b, s.Push(-1-i))
		k.has(10 * i)
	}
	var pulled, pushed []int
	b.await("all that was pushed has arrived", func() bool {
		pulled, pushed = nil, nil
		for _, batch := range k.batches {
			for _, e := range batch {
				if e < 0 {
					pushed = append(pushed, -1-e)
				} else {
					pulled = append(pulled, e)
				}
			}
		}
		return len(pushed) == 100
	})
	require.Equal(b, upTo(0, 100), pushed)
	require.Equal(b, upTo(0, len(pulled)), pulled)
}

// More than may be un-acknowledged at once.
func unbounded(b *bench) {
	const count = 120_000
	s, k := b.counter(count), b.sink("sink", nil)
	stage.Connect(s.out, k, stage.Unbounded())
	b.run(s)
	require.NoError(b, b.run(k).wait())
	require.Equal(b, upTo(0, count), k.events())
}
