package stagetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

var sharedScenes = []scene{
	{"whoever wants most is served first", "DDX-02 DDX-04 DDX-05", mostFirst},
	{"each event goes to one of them", "DDX-04 EDG-12", eachOnce},
	{"a slow one does not hold up the others", "DDX-16 DDX-18", slowOne},
	{"what the departed has asked for is pending", "DDX-08 DDX-09 DDX-10", pending},
	{"what is produced for the departed is kept", "DDX-11", keptForDeparted},
	{"what is being produced for the departed is kept", "EDG-03", producedForDeparted},
	{"flaps do not inflate demand", "DDX-19 DBX-09", flaps},
	{"a broadcast goes to everybody", "DBX-01 DBX-15 ACC-01 ACC-11", broadcastAll},
	{"a broadcast goes at the slowest's pace", "DBX-02 DBX-04 DBX-05 DBX-14", slowest},
	{"who comes late holds up a broadcast, and misses what was", "DBX-06 DBX-07", lateComer},
	{"who leaves frees a broadcast", "DBX-12 DBX-16 DBX-26", leaver},
	{"a selector sees its part", "DBX-17 DBX-21", selector},
	{"what a selector drops is asked for again", "DBX-18", reasked},
	{"a partition gets its own", "DPX-01 DPX-02 DPX-03 DPX-12", partitions},
	{"a slow partition waits alone", "DPX-04 DPX-05 DPX-06 DPX-22", slowPartition},
	{"a partition waits for a successor", "DPX-07 DPX-08", partitionSuccessor},
}

func broadcast(s *stage.Source[int]) { s.Dispatcher = dispatch.Broadcast[int]() }

// with waits until the source knows the readers' demand.
func (s *source) with(r *reader, name string, n int64) {
	s.b.Helper()
	r.ask(n, 0)
	s.granted(name, n)
}

func mostFirst(b *bench) {
	s := b.source(nil)
	b.run(s)
	few, many := b.read(s.out, terms("few")), b.read(s.out, terms("many"))
	s.with(few, "few", 2)
	s.with(many, "many", 10)
	require.NoError(b, s.Push(upTo(0, 5)...))
	require.Equal(b, upTo(0, 5), many.has(5))
	require.Empty(b, few.deliveries())
	require.NoError(b, s.Push(upTo(5, 13)...))
	require.Equal(b, upTo(0, 10), many.has(10))
	require.Equal(b, []int{10, 11}, few.has(2))
	b.eventually("the rest waits", func() bool { return s.Inspect().Buffered == 1 })
}

func eachOnce(b *bench) {
	const count = 2000
	s := b.counter(count, func(s *stage.Source[int]) { s.Accumulate = true })
	b.run(s)
	sinks := make([]*sink, 3)
	programs := make([]*program, 3)
	for i := range sinks {
		sinks[i] = b.sink(string(rune('a'+i)), nil)
		stage.Connect(s.out, sinks[i], demand(10*(i+1), 5*i)...)
		programs[i] = b.run(sinks[i])
	}
	b.eventually("all are there", func() bool { return len(s.Inspect().Subscribers) == 3 })
	s.Forward()
	var all []int
	for i, p := range programs {
		require.NoError(b, p.wait())
		got := sinks[i].events()
		require.True(b, slices.IsSorted(got))
		all = append(all, got...)
	}
	slices.Sort(all)
	require.Equal(b, upTo(0, count), all)
}

func slowOne(b *bench) {
	const count = 3000
	s, g := b.counter(count), b.gate()
	slow, fast := b.sink("slow", func([]int) error { return g.pass() }), b.sink("fast", nil)
	sub := stage.Connect(s.out, slow, demand(10, 5)...)
	q := b.run(slow)
	b.run(s)
	slow.has(5)
	b.eventually("it has all that it asked for", func() bool { return sub.Info().Received == 10 })
	stage.Connect(s.out, fast, demand(10, 5)...)
	p := b.run(fast)
	fast.has(count - 10)
	require.Len(b, slow.events(), 5)
	g.release()
	require.NoError(b, p.wait())
	require.NoError(b, q.wait())
	require.Len(b, append(slow.events(), fast.events()...), count)
}

// silent is a source that has nothing until it is pushed.
func (b *bench) silent(set ...func(*stage.Source[int])) *source {
	return b.source(func(int) ([]int, error) { return nil, nil }, set...)
}

// told is how much the source was told in all: what it still owes, when it has not
// produced anything.
func (s *source) told(n int64) {
	s.b.Helper()
	s.b.eventually("what the source owes", func() bool { return s.Inspect().Unmet == n })
}

func pending(b *bench) {
	s := b.silent()
	b.run(s)
	first := b.read(s.out, terms("first"))
	s.with(first, "first", 4)
	s.told(4)
	first.fail(0)
	first.ended()
	second := b.read(s.out, terms("second"))
	s.with(second, "second", 3)
	require.EqualValues(b, 4, s.Inspect().Unmet, "it was told already")
	second.ask(3, 0)
	s.granted("second", 6)
	s.told(6)
	require.NoError(b, s.Push(upTo(0, 6)...))
	require.Equal(b, upTo(0, 6), second.has(6))
	s.told(0)
}

func keptForDeparted(b *bench) {
	s := b.silent()
	b.run(s)
	first := b.read(s.out, terms("first"))
	s.with(first, "first", 6)
	s.told(6)
	first.fail(0)
	first.ended()
	require.NoError(b, s.Push(upTo(0, 6)...))
	s.told(0)
	second := b.read(s.out, terms("second"))
	second.ask(10, 0)
	require.Equal(b, upTo(0, 6), second.has(6))
	s.told(4)
	require.NoError(b, s.Push(upTo(6, 10)...))
	require.Equal(b, upTo(0, 10), second.has(10))
}

// The handler runs when the only subscriber leaves.
func producedForDeparted(b *bench) {
	g, called := b.gate(), false
	s := &source{b: b, discarded: map[string]int{}}
	s.Source = stage.NewSource(func(_ context.Context, n int) ([]int, error) {
		b.note(func() { called = true })
		return upTo(0, n), g.pass()
	})
	s.DrainTimeout = 2 * time.Second
	s.out = b.way(b.T, s.Source)
	b.run(s)
	first := b.read(s.out, terms("first"))
	first.ask(6, 0)
	b.await("the handler is called", func() bool { return called })
	first.fail(0)
	first.ended()
	g.release()
	b.eventually("what it has made waits", func() bool { return s.Inspect().Buffered == 6 })
	second := b.read(s.out, terms("second"))
	second.ask(6, 0)
	require.Equal(b, upTo(0, 6), second.has(6))
}

func flaps(b *bench) {
	for _, set := range []func(*stage.Source[int]){func(*stage.Source[int]) {}, broadcast} {
		s := b.silent(set)
		b.run(s)
		for range 20 {
			r := b.read(s.out, terms("reader"))
			s.with(r, "reader", 10)
			r.fail(0)
			r.ended()
		}
		require.EqualValues(b, 10, s.Inspect().Unmet)
		r := b.read(s.out, terms("last"))
		r.ask(10, 0)
		require.NoError(b, s.Push(upTo(0, 10)...))
		require.Equal(b, upTo(0, 10), r.has(10))
		s.told(0)
	}
}

func broadcastAll(b *bench) {
	s := b.counter(endless, broadcast, func(s *stage.Source[int]) { s.Accumulate = true })
	b.run(s)
	ten, twenty := b.sink("ten", nil), b.sink("twenty", nil)
	stage.Connect(s.out, ten, demand(10, 0)...)
	stage.Connect(s.out, twenty, demand(20, 0)...)
	b.run(ten)
	b.run(twenty)
	b.eventually("both are there", func() bool { return len(s.Inspect().Subscribers) == 2 })
	require.Empty(b, s.asked(), "asks are held")
	s.Forward()
	ten.has(100)
	twenty.has(100)
	for i := range 10 {
		require.Equal(b, upTo(10*i, 10*i+10), ten.all()[i])
		require.Equal(b, upTo(10*i, 10*i+10), twenty.all()[i])
	}
}

func slowest(b *bench) {
	s := b.counter(endless, broadcast)
	b.run(s)
	one, two := b.read(s.out, terms("one")), b.read(s.out, terms("two"))
	s.with(one, "one", 10)
	require.Empty(b, s.asked(), "nothing is common yet")
	two.ask(4, 0)
	require.Equal(b, upTo(0, 4), one.has(4))
	require.Equal(b, upTo(0, 4), two.has(4))
	two.ask(3, 4)
	require.Equal(b, upTo(0, 7), one.has(7))
	require.Equal(b, upTo(0, 7), two.has(7))
	require.Equal(b, []int{4, 3}, s.asked())
}

func lateComer(b *bench) {
	s := b.source(nil, broadcast)
	b.run(s)
	one := b.read(s.out, terms("one"))
	s.with(one, "one", 10)
	require.NoError(b, s.Push(0, 1))
	require.Equal(b, []int{0, 1}, one.has(2))
	two := b.read(s.out, terms("two"))
	require.NoError(b, s.Push(2, 3))
	require.Equal(b, 2, s.Inspect().Buffered, "nobody runs ahead")
	two.ask(5, 0)
	require.Equal(b, []int{2, 3}, two.has(2))
	require.Equal(b, upTo(0, 4), one.has(4))
}

func leaver(b *bench) {
	s := b.counter(endless, broadcast)
	b.run(s)
	one, two := b.read(s.out, terms("one")), b.read(s.out, terms("two"))
	s.with(one, "one", 6)
	two.ask(2, 0)
	require.Equal(b, upTo(0, 2), one.has(2))
	two.has(2)
	two.drain(2)
	require.Equal(b, upTo(0, 6), one.has(6))
	require.Equal(b, []int{2, 4}, s.asked())
}

// selector sees the even numbers, wherever it runs.
func selector(b *bench) {
	s := b.counter(endless, broadcast, func(s *stage.Source[int]) { s.Accumulate = true })
	b.run(s)
	even, all := b.sink("even", nil), b.sink("all", nil)
	stage.Connect(stage.Where(s.out, func(i int) bool { return i%2 == 0 }), even, demand(6, 2)...)
	stage.Connect(s.out, all, demand(6, 2)...)
	b.run(even)
	b.run(all)
	b.eventually("both are there", func() bool { return len(s.Inspect().Subscribers) == 2 })
	s.Forward()
	even.has(50)
	all.has(100)
	for i, e := range even.events() {
		require.Equal(b, 2*i, e)
	}
	all.inOrder()
}

// What is dropped at the producer costs no demand.
func reasked(b *bench) {
	s := b.source(nil, broadcast)
	k := b.sink("sink", nil)
	sub := stage.Connect(stage.Where(s.out, func(i int) bool { return i%2 == 0 }), k, demand(6, 0)...)
	b.run(s)
	b.run(k)
	s.granted("sink", 6)
	require.NoError(b, s.Push(upTo(0, 8)...))
	k.has(4)
	require.Equal(b, []int{0, 2, 4, 6}, k.events())
	require.EqualValues(b, 6, sub.Info().Granted, "two are open still")
	require.EqualValues(b, 4, s.view("sink").Sent)
}

func partitions(b *bench) {
	s := b.source(nil, partitioned)
	b.run(s)
	even, odd := b.read(s.out, inPartition("reader", 0)), b.read(s.out, inPartition("reader", 1))
	even.ask(3, 0)
	b.eventually("it is asked", func() bool { return s.Inspect().Unmet == 3 })
	require.NoError(b, s.Push(0, 1, -2))
	require.Equal(b, []int{0, -2}, even.has(2))
	require.Empty(b, odd.deliveries())
	odd.ask(3, 0)
	require.Equal(b, []int{1}, odd.has(1))
	require.NoError(b, s.Push(-1, 4, 3))
	require.Equal(b, []int{1, -1, 3}, odd.has(3))
	require.Equal(b, []int{0, -2, 4}, even.has(3))
}

func slowPartition(b *bench) {
	s := b.source(nil, partitioned)
	b.run(s)
	even := b.read(s.out, inPartition("even", 0))
	for i := range 10 {
		even.ask(1, int64(i))
		require.NoError(b, s.Push(2*i+1, 2*i))
		even.has(i + 1)
	}
	require.Equal(b, 10, s.Inspect().Buffered)
	odd := b.read(s.out, inPartition("odd", 1))
	odd.ask(10, 0)
	require.Equal(b, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, odd.has(10))
}

func partitionSuccessor(b *bench) {
	s := b.silent(partitioned)
	b.run(s)
	first := b.read(s.out, inPartition("first", 1))
	s.with(first, "first", 10)
	s.told(10)
	first.fail(0)
	first.ended()
	require.NoError(b, s.Push(1, 2, 3))
	second := b.read(s.out, inPartition("second", 1))
	s.with(second, "second", 10)
	require.Equal(b, []int{1, 3}, second.has(2))
	require.LessOrEqual(b, s.Inspect().Unmet, int64(8), "it is not told again")
}
