package stagetest

import (
	"context"
	"fmt"
	"io"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

var stageScenes = []scene{
	{"manual demand", "MAN-01 MAN-02 MAN-04 MAN-05 MAN-08 MAN-09 BAT-04 BAT-05", manual},
	{"a large delivery is one batch", "BAT-04", largeDelivery},
	{"asking inside the handler", "MAN-03 HOK-06", selfPaced},
	{"asking on top of automatic demand", "MAN-06", onTop},
	{"the hook of the end decides", "HOK-09 HOK-10", hooked},
	{"a gate in front", "GAT-10 GAT-22", gateInFront},
	{"a gate behind", "GAT-23 GAT-24 BUF-02", gateBehind},
	{"a slow sink is felt before a gate", "GAT-05 GAT-06", throttled},
	{"a gate keeps what waits for a successor", "GAT-13 GAT-14", gateSuccessor},
	{"messages are emitted like events", "MSG-01 MSG-02", messages},
	{"pushing can wait for room", "END-14", pushWait},
}

func manual(b *bench) {
	s, k := b.counter(endless), b.sink("sink", nil)
	b.run(s)
	b.run(k)
	sub := b.subscribe(s.out, k, stage.Manual())
	require.ErrorIs(b, sub.Ask(0), stage.ErrAskNotPositive)
	require.ErrorIs(b, sub.Ask(-3), stage.ErrAskNotPositive)
	require.NoError(b, sub.Ask(4))
	k.has(4)
	b.eventually("it is processed", func() bool { return sub.Info().Acked == 4 })
	require.NoError(b, sub.Ask(2))
	k.has(6)
	require.Equal(b, [][]int{{0, 1, 2, 3}, {4, 5}}, k.all())
	require.Equal(b, []int{4, 2}, s.asked(), "it has never asked by itself")
}

// Whatever carries it may cut it, and has to join it again.
func largeDelivery(b *bench) {
	const count = 20_000
	s, k := b.counter(endless), b.sink("sink", nil)
	b.run(s)
	b.run(k)
	require.NoError(b, b.subscribe(s.out, k, stage.Manual()).Ask(count))
	k.has(count)
	require.Len(b, k.all(), 1)
	k.inOrder()
}

func selfPaced(b *bench) {
	s := b.counter(endless)
	k := &sink{b: b}
	k.Sink = stage.NewSink(func(ctx context.Context, batch []int) error {
		info, ok := stage.Delivery(ctx)
		if !ok || info.First != int64(batch[0]+1) {
			return fmt.Errorf("delivery %+v of %v", info, batch)
		}
		b.note(func() { k.batches = append(k.batches, batch[:2:2]); k.count += len(batch) })
		return info.Subscription.Ask(2)
	})
	k.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(2) }
	k.Name = "sink"
	stage.Connect(s.out, k, stage.Manual())
	b.run(s)
	b.run(k)
	k.has(6)
	require.Equal(b, []int{2, 2, 2}, s.asked()[:3])
}

func onTop(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	b.run(s)
	b.run(k)
	sub := b.subscribe(s.out, k, demand(4, 0)...)
	require.NoError(b, sub.Ask(3))
	s.granted("sink", 7)
	require.NoError(b, s.Push(upTo(0, 7)...))
	k.has(7)
	s.granted("sink", 11)
}

func hooked(b *bench) {
	for _, fails := range []bool{false, true} {
		s := b.source(func(int) ([]int, error) {
			if fails {
				return nil, errOops
			}
			return nil, io.EOF
		})
		k := b.sink(fmt.Sprint("sink ", fails), nil)
		var got stage.Ending
		k.OnCancelled = func(_ *stage.Subscription, e stage.Ending) error {
			b.note(func() { got = e })
			return stage.Stop
		}
		b.run(k)
		b.subscribe(s.out, k)
		b.run(s)
		b.await("the hook decides", func() bool { return got.Reason != 0 })
		if fails {
			require.Equal(b, stage.Failed, got.Reason)
			require.ErrorContains(b, got.Err, "oops")
		} else {
			require.Equal(b, stage.Completed, got.Reason)
		}
	}
}

// even passes on what is even.
func even(_ context.Context, events []int) (out []int, _ error) {
	for _, e := range events {
		if e%2 == 0 {
			out = append(out, e)
		}
	}
	return out, nil
}

func gateInFront(b *bench) {
	const count = 1000
	s := b.counter(count)
	g := stage.NewGate(even)
	g.Name = "even"
	stage.Connect(s.out, g, demand(7, 3)...)
	out := b.way(b.T, g)
	k := b.sink("sink", nil)
	stage.Connect(out, k, demand(6, 2)...)
	q := b.run(k) // before its producer
	b.run(g)
	b.run(s)
	require.NoError(b, q.wait())
	require.Len(b, k.events(), count/2)
	for i, e := range k.events() {
		require.Equal(b, 2*i, e)
	}
}

func gateBehind(b *bench) {
	s := b.counter(endless)
	words := stage.NewGate(func(_ context.Context, events []int) (out []string, err error) {
		for _, e := range events {
			if e == 20 {
				return out, stage.Stop
			}
			out = append(out, fmt.Sprint(e))
		}
		return out, nil
	})
	words.Name = "words"
	stage.Connect(s.out, words, demand(5, 2)...)
	b.run(s)
	b.run(words)
	all, err := stage.Fold(b.Context(), stage.Outlet[string](words), "", func(all, w string) string { return all + " " + w })
	require.NoError(b, err)
	require.Equal(b, " 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", all)
}

// What is between the source and the sink's handler is bounded by what the two of them
// have asked for, however slow the sink is.
func throttled(b *bench) {
	s := b.counter(endless)
	g := stage.NewGate(stage.Map(func(i int) int { return 10 * i }))
	g.Name = "gate"
	stage.Connect(s.out, g, demand(6, 2)...)
	out := b.way(b.T, g)
	steps := 0
	k := b.sink("sink", func([]int) error {
		b.saw(func() bool { return steps > 0 || b.over })
		b.note(func() { steps-- })
		return nil
	})
	sub := stage.Connect(out, k, demand(6, 2)...)
	b.run(s)
	b.run(g)
	b.run(k)
	for i := range 20 {
		b.await("the handler has its next batch", func() bool { return len(k.batches) > i })
		b.eventually("it comes to a rest", func() bool {
			i := sub.Info()
			return i.Received == i.Granted && g.Inspect().Buffered > 0
		})
		b.note(func() {
			require.LessOrEqual(b, s.made-k.count, 6+6+6)
			steps++
		})
	}
	k.has(40)
}

func gateSuccessor(b *bench) {
	s := b.counter(endless)
	g := stage.NewGate(stage.Map(func(i int) int { return i }))
	g.Name = "gate"
	sub := stage.Connect(s.out, g, demand(6, 2)...)
	out := b.way(b.T, g)
	b.run(s)
	b.run(g)
	b.eventually("it holds what it has asked for", func() bool {
		i := g.Inspect()
		return i.Buffered == 6 && sub.Info().Acked == 6
	})
	require.EqualValues(b, 6, s.view("gate").Granted)
	first := b.read(out, terms("first"))
	first.ask(2, 0)
	require.Equal(b, upTo(0, 2), first.has(2))
	first.drain(2)
	first.ended()
	require.EqualValues(b, 6, s.view("gate").Granted, "more waits than anybody wants")
	second := b.read(out, terms("second"))
	second.ask(10, 0)
	require.Equal(b, upTo(2, 12), second.has(10))
}

func messages(b *bench) {
	s := b.source(nil)
	send := stage.Handle(s.Source, func(_ context.Context, n int) ([]int, error) {
		if n < 0 {
			return nil, io.EOF
		}
		return []int{n}, nil
	})
	k := b.sink("sink", nil)
	stage.Connect(s.out, k)
	b.run(s)
	q := b.run(k)
	s.granted("sink", 1000)
	for _, n := range []int{99, 1, 2, -1} {
		require.NoError(b, send(n))
	}
	require.NoError(b, q.wait())
	require.Equal(b, [][]int{{99}, {1}, {2}}, k.all())
}

func pushWait(b *bench) {
	s := b.source(nil, func(s *stage.Source[int]) { s.Buffer = stage.KeepLast(3) })
	b.run(s)
	pushed := 0
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	over := false
	go func() {
		n, err := s.PushWait(ctx, upTo(0, 100)...)
		b.note(func() { pushed, over = n, err == nil })
	}()
	b.eventually("the buffer is full", func() bool { return s.Inspect().Buffered == 3 })
	k := b.sink("sink", nil)
	stage.Connect(s.out, k, demand(6, 2)...)
	b.run(k)
	k.has(100)
	require.Equal(b, upTo(0, 100), k.events())
	b.await("all of it is pushed", func() bool { return over && pushed == 100 })
	require.Empty(b, s.discarded)
}
