package stagetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

var admissionScenes = []scene{
	{"a partition has to be named", "DPX-09 DPX-13", func(b *bench) {
		refusals(b, partitioned, dispatch.ErrNoPartition, terms("reader"))
	}},
	{"a partition has to exist", "DPX-11 DPX-13", func(b *bench) {
		refusals(b, partitioned, dispatch.ErrPartitionRange, inPartition("reader", 2))
	}},
	{"a partition has one subscriber", "DPX-10 DPX-13", partitionTaken},
	{"a partition of what has none", "DBX-25", func(b *bench) {
		refusals(b, func(*stage.Source[int]) {}, dispatch.ErrUnsupported, inPartition("reader", 0))
	}},
	{"a selector of what has none", "DPX-14", noSelectors},
	{"a refusal is an error, and the stage lives on", "SUB-16", refusedInCall},
	{"a declared subscription that is refused", "SUB-16", refusedDeclared},
	{"a refusal ends as refused", "SUB-15", refusedTemporary},
	{"one subscription at a time", "SUB-09 DBX-24 CAN-24", twice},
	{"a window has to make sense", "SUB-01 SUB-02", badWindow},
	{"an outlet that has ended", "SUB-05 SUB-06", ended},
	{"a gate does not feed itself", "SUB-07 SUB-08", itself},
	{"workers do their own asking", "SUB-10 CSV-29 POL-05", ownAsking},
	{"a sink that has ended", "SUB-04 SUB-26", deadSink},
	{"subscribers come and go", "HOK-01 HOK-02 HOK-04", comeAndGo},
}

// partitioned has two partitions: even and odd numbers.
func partitioned(s *stage.Source[int]) {
	s.Dispatcher = dispatch.Partition(2, func(event int) int { return event })
}

// refusals checks that such terms are refused, in those words, and that nobody else
// feels it.
func refusals(b *bench, set func(*stage.Source[int]), why error, t stage.Terms) {
	s := b.counter(endless, set)
	p := b.run(s)
	require.ErrorContains(b, b.refused(s.out, t), why.Error())
	good := inPartition("good", 0)
	if why == dispatch.ErrUnsupported { //nolint:errorlint // as given
		good = terms("good")
	}
	r := b.read(s.out, good)
	r.ask(1, 0)
	require.Equal(b, []int{0}, r.has(1))
	require.False(b, p.ended(), "the producer lives")
	b.await("the hook hears of one subscriber", func() bool { return len(s.changes) == 1 && s.changes[0].Count == 1 })
}

func partitionTaken(b *bench) {
	s := b.source(nil, partitioned)
	b.run(s)
	first := b.read(s.out, inPartition("first", 1))
	require.ErrorContains(b, b.refused(s.out, inPartition("second", 1)), dispatch.ErrPartitionTaken.Error())
	first.ask(2, 0)
	require.NoError(b, s.Push(1, 3))
	require.Equal(b, []int{1, 3}, first.has(2))
	first.drain(2)
	first.ended()
	third := b.read(s.out, inPartition("third", 1))
	third.ask(1, 0)
	require.NoError(b, s.Push(5))
	require.Equal(b, []int{5}, third.has(1))
}

func noSelectors(b *bench) {
	s, k := b.counter(endless), b.sink("sink", nil)
	b.run(s)
	b.run(k)
	_, err := stage.Subscribe(b.Context(), stage.Where(s.out, func(int) bool { return true }), k, stage.Temporary)
	require.ErrorIs(b, err, dispatch.ErrUnsupported)
}

func refusedInCall(b *bench) {
	s, k := b.source(nil, partitioned), b.sink("sink", nil)
	b.run(s)
	q := b.run(k)
	_, err := stage.Subscribe(b.Context(), s.out, k)
	require.ErrorContains(b, err, dispatch.ErrNoPartition.Error())
	b.subscribe(s.out, k, stage.InPartition(0))
	require.NoError(b, s.Push(2))
	k.has(1)
	require.False(b, q.ended())
}

func refusedDeclared(b *bench) {
	s, k := b.source(nil, partitioned), b.sink("sink", nil)
	b.run(s)
	sub := stage.Connect(s.out, k)
	require.ErrorContains(b, b.run(k).wait(), dispatch.ErrNoPartition.Error())
	require.Equal(b, stage.Refused, b.done(sub).Reason)
	require.ErrorContains(b, sub.Ready(b.Context()), dispatch.ErrNoPartition.Error())
}

func refusedTemporary(b *bench) {
	s, k := b.source(nil, partitioned), b.sink("sink", nil)
	b.run(s)
	q := b.run(k)
	_, err := stage.Subscribe(b.Context(), s.out, k, stage.Temporary)
	require.ErrorContains(b, err, dispatch.ErrNoPartition.Error())
	b.subscribe(s.out, k, stage.Temporary, stage.InPartition(0))
	require.NoError(b, s.Push(2))
	k.has(1)
	require.False(b, q.ended())
}

func twice(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	b.run(s)
	q := b.run(k)
	b.subscribe(s.out, k)
	_, err := stage.Subscribe(b.Context(), s.out, k)
	require.ErrorIs(b, err, stage.ErrAlreadySubscribed)
	require.NoError(b, s.Push(1))
	k.has(1)
	require.False(b, q.ended(), "the stage and its first subscription live on")
	require.Len(b, s.Inspect().Subscribers, 1)
}

func badWindow(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	b.run(s)
	b.run(k)
	for _, w := range [][2]int{{10, 10}, {0, 0}, {5, 7}, {10, -1}} {
		_, err := stage.Subscribe(b.Context(), s.out, k, demand(w[0], w[1])...)
		require.ErrorIs(b, err, stage.ErrInvalidDemand)
		require.Equal(b, &stage.DemandError{Max: int64(w[0]), Min: int64(w[1])}, err)
	}
	require.Empty(b, s.Inspect().Subscribers)
}

func ownAsking(b *bench) {
	s := b.counter(endless)
	b.run(s)
	for _, w := range []*stage.Workers[int]{
		stage.NewWorkers(func(context.Context, int) error { return nil }),
		stage.NewPool(3, func(context.Context, int) error { return nil }),
	} {
		b.run(w)
		_, err := stage.Subscribe(b.Context(), s.out, w, stage.Manual())
		require.ErrorIs(b, err, stage.ErrUnsupportedDemandMode)
		sub := b.subscribe(s.out, w)
		require.ErrorIs(b, sub.Ask(1), stage.ErrUnsupportedDemandMode)
	}
	_, err := stage.Subscribe(b.Context(), s.out, stage.NewPool(3, func(context.Context, int) error { return nil }), stage.MaxDemand(7))
	require.ErrorIs(b, err, stage.ErrUnsupportedDemandMode)
}

func ended(b *bench) {
	s, k := b.counter(0), b.sink("sink", nil)
	p := b.run(s)
	r := b.read(s.out, terms("reader"))
	r.ask(1, 0)
	require.NoError(b, p.wait())
	q := b.run(k)
	_, err := stage.Subscribe(b.Context(), s.out, k)
	require.ErrorIs(b, err, stage.ErrEnded)
	require.False(b, q.ended())
}

func itself(b *bench) {
	g := stage.NewGate(stage.Map(func(i int) int { return i }))
	out := b.way(b.T, g)
	b.run(g)
	_, err := stage.Subscribe(b.Context(), out, g)
	require.ErrorIs(b, err, stage.ErrSelfSubscription)
}

func deadSink(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	b.run(s)
	q := b.run(k)
	q.stop()
	require.ErrorIs(b, q.wait(), context.Canceled)
	_, err := stage.Subscribe(b.Context(), s.out, k)
	require.ErrorIs(b, err, stage.ErrEnded)
	require.Empty(b, s.Inspect().Subscribers)
}

func comeAndGo(b *bench) {
	s := b.source(nil)
	b.run(s)
	one := b.read(s.out, terms("one"))
	b.read(s.out, terms("two"))
	one.fail(0)
	one.ended()
	b.await("three changes", func() bool { return len(s.changes) == 3 })
	var counts []int
	var who []string
	for _, c := range s.changes {
		counts = append(counts, c.Count)
		who = append(who, c.Who.Stage)
	}
	require.Equal(b, []int{1, 2, 1}, counts)
	require.Equal(b, []string{"one", "two", "one"}, who)
	require.Nil(b, s.changes[1].Left)
	require.Equal(b, stage.Cancelled, s.changes[2].Left.Reason)
	require.ErrorContains(b, s.changes[2].Left.Err, "it failed")
}
