package stagetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

var cancelScenes = []scene{
	{"a cancelled permanent one ends its stage", "CAN-10 CAN-12", cancelPermanent},
	{"a cancelled temporary one can be made anew", "CAN-11 CAN-16", cancelTemporary},
	{"what was sent is processed after a cancel", "CAN-13 CAN-15 END-08", cancelDrains},
	{"after a cancel nothing is asked", "CAN-14 CAN-19 MAN-07", cancelIsLast},
	{"a sink that stops ends its subscription", "END-16 BAT-06 CAN-26", sinkStops},
}

var backScenes = []scene{
	{"what a failed stage had comes back", "BUF-06 BUF-21 CAN-26", comesBack},
	{"at most once nothing comes back", "BUF-21 DSC-06", atMostOnce},
	{"copies do not come back", "BUF-21 DSC-06", copies},
	{"what is done out of order does not come back", "BUF-21 EDG-05", outOfOrder},
	{"only what a handler had counts an attempt", "BUF-21", onlyTried},
	{"a handler says how far it came", "BUF-21 BAT-06", failsAt},
	{"what comes back too often is discarded", "BUF-21", exhausted},
	{"a failure may follow a drain", "CAN-13 BUF-21", failsLater},
	{"what comes back goes to its partition", "DPX-07 BUF-21", backToPartition},
	{"workers finish out of order", "POL-01 CSV-34", workers},
	{"what a worker had comes back", "CSV-27 BUF-21", workerComesBack},
}

func cancelPermanent(b *bench) {
	s, k := b.counter(endless), b.sink("sink", nil)
	sub := stage.Connect(s.out, k)
	p, q := b.run(s), b.run(k)
	k.has(10)
	require.True(b, sub.Cancel())
	require.NoError(b, q.wait())
	require.Equal(b, stage.Cancelled, sub.Ending().Reason)
	b.await("the source is told why", func() bool {
		n := len(s.changes)
		return n > 0 && s.changes[n-1].Left != nil && s.changes[n-1].Left.Reason == stage.Cancelled
	})
	k.inOrder()
	require.False(b, p.ended(), "the producer lives")
}

func cancelTemporary(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	first := stage.Connect(s.out, k, stage.Temporary)
	b.run(s)
	b.run(k)
	s.granted("sink", 1000)
	require.True(b, first.Cancel())
	require.Equal(b, stage.Cancelled, b.done(first).Reason)
	require.False(b, first.Cancel(), "there is nothing to cancel")
	require.ErrorIs(b, first.Ask(1), stage.ErrEnded)
	b.eventually("the producer has no subscriber", func() bool { return len(s.Inspect().Subscribers) == 0 })
	require.NoError(b, s.Push(1, 2))
	require.Zero(b, len(k.events()))
	second := b.subscribe(s.out, k, stage.Temporary)
	k.has(2)
	require.Equal(b, []int{1, 2}, k.events())
	b.eventually("it is processed", func() bool { return second.Info().Acked == 2 })
}

// The handler is in its first batch when the subscription is cancelled.
func cancelDrains(b *bench) {
	s, g := b.counter(endless), b.gate()
	k := b.sink("sink", func([]int) error { return g.pass() })
	sub := stage.Connect(s.out, k, demand(5, 1)...)
	b.run(s)
	q := b.run(k)
	k.has(4)
	b.eventually("all of it has arrived", func() bool { return sub.Info().Received == 5 })
	require.True(b, sub.Cancel())
	g.release()
	require.NoError(b, q.wait())
	require.Equal(b, [][]int{{0, 1, 2, 3}, {4}}, k.all())
	require.Equal(b, []int{5}, s.asked(), "nothing was asked for after it")
	require.Equal(b, stage.Cancelled, sub.Ending().Reason)
	b.eventually("the source knows", func() bool { return len(s.Inspect().Subscribers) == 0 })
	require.Zero(b, s.Inspect().Buffered, "nothing comes back that is processed")
	require.Empty(b, s.Inspect().Discarded)
}

func cancelIsLast(b *bench) {
	s := b.source(nil)
	b.run(s)
	r, other := b.read(s.out, terms("reader")), b.read(s.out, terms("other"))
	r.ask(5, 0)
	s.granted("reader", 5)
	r.drain(0)
	_ = r.Ask(5, 0)
	require.Equal(b, stage.Cancelled, r.ended().Reason)
	_ = r.Ask(5, 0)
	r.drain(0)
	other.ask(3, 0)
	require.NoError(b, s.Push(upTo(0, 3)...))
	require.Equal(b, upTo(0, 3), other.has(3))
	require.Empty(b, r.deliveries())
}

// The batch that the handler stops at counts as processed, and what is behind it goes
// back.
func sinkStops(b *bench) {
	s := b.source(nil)
	k := b.sink("sink", func([]int) error { return stage.Stop })
	stage.Connect(s.out, k, demand(6, 2)...)
	p := b.run(s)
	q := b.run(k)
	s.granted("sink", 6)
	require.NoError(b, s.Push(upTo(0, 6)...))
	require.NoError(b, q.wait())
	require.Equal(b, [][]int{{0, 1, 2, 3}}, k.all())
	r := b.read(s.out, terms("reader"))
	r.ask(10, 0)
	require.Equal(b, []int{4, 5}, r.has(2))
	require.False(b, p.ended())
}

// A sink fails at its first batch: that counts as tried, and comes alone.
func comesBack(b *bench) {
	s := b.counter(endless)
	k := b.sink("first", func([]int) error { return errOops })
	stage.Connect(s.out, k, demand(6, 2)...)
	b.run(s)
	require.ErrorContains(b, b.run(k).wait(), "oops")
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == 6 })
	again := b.sink("second", nil)
	stage.Connect(s.out, again, demand(6, 2)...)
	b.run(again)
	again.has(10)
	b.note(func() {
		require.Equal(b, [][]int{{0}, {1}, {2}, {3}, {4, 5}}, again.batches[:5])
		for i, info := range again.infos[:5] {
			require.True(b, info.Redelivered)
			require.Equal(b, map[bool]int{true: 1, false: 0}[i < 4], info.Attempts, "batch %d", i)
		}
		require.False(b, again.infos[5].Redelivered)
		require.Equal(b, 6, again.batches[5][0])
	})
	require.Empty(b, s.discarded)
}

func atMostOnce(b *bench) {
	s := b.counter(endless)
	k := b.sink("first", func([]int) error { return errOops })
	stage.Connect(s.out, k, stage.MaxDemand(6), stage.MinDemand(2), stage.AtMostOnce())
	b.run(s)
	require.ErrorContains(b, b.run(k).wait(), "oops")
	b.await("it is counted", func() bool { return s.discarded[stage.DiscardAtMostOnce] == 6 })
	r := b.read(s.out, terms("reader"))
	r.ask(2, 0)
	require.Equal(b, []int{6, 7}, r.has(2))
}

func copies(b *bench) {
	s := b.source(nil, func(s *stage.Source[int]) { s.Dispatcher = dispatch.Broadcast[int]() })
	b.run(s)
	one, two := b.read(s.out, terms("one")), b.read(s.out, terms("two"))
	one.ask(5, 0)
	two.ask(5, 0)
	s.granted("one", 5)
	s.granted("two", 5)
	require.NoError(b, s.Push(upTo(0, 5)...))
	require.Equal(b, upTo(0, 5), one.has(5))
	require.Equal(b, upTo(0, 5), two.has(5))
	one.fail(2)
	require.Equal(b, stage.Cancelled, one.ended().Reason)
	b.await("they are counted", func() bool { return s.discarded[stage.DiscardCopy] == 3 })
	two.ask(1, 5)
	require.NoError(b, s.Push(5))
	require.Equal(b, upTo(0, 6), two.has(6), "the other one does not get them twice")
}

func outOfOrder(b *bench) {
	s := b.counter(endless)
	b.run(s)
	r := b.read(s.out, terms("first"))
	r.ask(8, 0)
	r.has(8)
	// 1 is processed, and so are 3 to 4 and 7.
	require.NoError(b, r.Ack(1, stage.Range{First: 3, Last: 4}))
	r.fail(1, stage.Range{First: 3, Last: 4}, stage.Range{First: 7, Last: 7})
	require.Equal(b, stage.Cancelled, r.ended().Reason)
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == 4 })
	again := b.read(s.out, terms("second"))
	again.ask(5, 0)
	require.Equal(b, []int{1, 4, 5, 7, 8}, again.has(5))
	attempts := map[int]int{}
	for _, d := range again.deliveries() {
		for _, e := range d.Events {
			require.Equal(b, e < 8, d.Redelivered)
			attempts[e] = d.Attempts
		}
	}
	require.Equal(b, map[int]int{1: 1, 4: 0, 5: 0, 7: 0, 8: 0}, attempts, "what was not in hand does not count")
}

// marks are how often each event was tried that a reader has had.
func (r *reader) marks() map[int]int {
	marks := map[int]int{}
	for _, d := range r.deliveries() {
		for _, e := range d.Events {
			marks[e] = d.Attempts
		}
	}
	return marks
}

// fails runs a sink whose handler is given eight events in batches of two, and returns
// err with the second one. It returns what another consumer then gets.
func (b *bench) fails(err error, n int) *reader {
	s := b.counter(8)
	k := b.sink("sink", func(batch []int) error {
		if batch[0] == 2 {
			return err
		}
		return nil
	})
	stage.Connect(s.out, k, demand(8, 6)...)
	b.run(s)
	require.ErrorContains(b, b.run(k).wait(), "oops")
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == n })
	r := b.read(s.out, terms("reader"))
	r.ask(int64(n), 0)
	r.has(n)
	return r
}

func onlyTried(b *bench) {
	r := b.fails(errOops, 6)
	require.Equal(b, map[int]int{2: 1, 3: 1, 4: 0, 5: 0, 6: 0, 7: 0}, r.marks())
}

func failsAt(b *bench) {
	r := b.fails(stage.FailedAt(1, errOops), 5)
	require.Equal(b, map[int]int{3: 1, 4: 0, 5: 0, 6: 0, 7: 0}, r.marks())
	r = b.fails(stage.FailedAt(0, errOops), 6)
	require.Equal(b, map[int]int{2: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0}, r.marks(), "its neighbour does not count")
}

// One event fails whoever gets it. The others are processed, also those that shared a
// batch with it.
func exhausted(b *bench) {
	s := b.counter(6, func(s *stage.Source[int]) { s.MaxAttempts = 3 })
	p := b.run(s)
	done := map[int]int{}
	for range 3 {
		k := b.sink("sink", func(batch []int) error {
			if slices.Contains(batch, 3) {
				return errOops
			}
			b.note(func() {
				for _, e := range batch {
					done[e]++
				}
			})
			return nil
		})
		stage.Connect(s.out, k, demand(6, 4)...)
		require.ErrorContains(b, b.run(k).wait(), "oops")
	}
	b.await("it is discarded", func() bool { return s.discarded[stage.DiscardExhausted] == 1 })
	k := b.sink("last", func(batch []int) error {
		b.note(func() {
			for _, e := range batch {
				done[e]++
			}
		})
		return nil
	})
	stage.Connect(s.out, k)
	require.NoError(b, b.run(k).wait())
	require.NoError(b, p.wait())
	require.Equal(b, map[int]int{0: 1, 1: 1, 2: 1, 4: 1, 5: 1}, done)
	require.Equal(b, map[string]int{stage.DiscardExhausted: 1}, s.discarded)
}

func failsLater(b *bench) {
	s := b.source(nil)
	b.run(s)
	r := b.read(s.out, terms("first"))
	r.ask(4, 0)
	require.NoError(b, s.Push(upTo(0, 4)...))
	r.has(4)
	r.drain(1)
	r.ended()
	r.fail(2)
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == 2 })
	again := b.read(s.out, terms("second"))
	again.ask(4, 0)
	require.Equal(b, []int{2, 3}, again.has(2))
}

func backToPartition(b *bench) {
	s := b.source(nil, partitioned)
	b.run(s)
	r := b.read(s.out, inPartition("first", 1))
	r.ask(2, 0)
	s.granted("first", 2)
	require.NoError(b, s.Push(upTo(0, 8)...))
	require.Equal(b, []int{1, 3}, r.has(2))
	r.fail(1)
	r.ended()
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == 7 })
	even, odd := b.read(s.out, inPartition("even", 0)), b.read(s.out, inPartition("odd", 1))
	odd.ask(5, 0)
	even.ask(5, 0)
	require.Equal(b, []int{3, 5, 7}, odd.has(3))
	require.Equal(b, []int{0, 2, 4, 6}, even.has(4))
	require.True(b, odd.deliveries()[0].Redelivered)
	require.False(b, even.deliveries()[0].Redelivered)
}

// The first of ten events takes its time. The others are processed meanwhile, three at
// a time, and acknowledged behind it.
func workers(b *bench) {
	s, g := b.counter(10), b.gate()
	done, most, now := 0, 0, 0
	w := stage.NewWorkers(func(_ context.Context, event int) (err error) {
		b.note(func() { now++; most = max(most, now) })
		if event == 0 {
			err = g.pass()
		}
		b.note(func() { now--; done++ })
		return err
	})
	w.Name = "workers"
	stage.Connect(s.out, w, demand(4, 3)...)
	p := b.run(s)
	q := b.run(w)
	b.await("the others are processed", func() bool { return done == 9 })
	require.False(b, p.ended(), "the source waits for the first one")
	g.release()
	require.NoError(b, q.wait())
	require.NoError(b, p.wait())
	require.Equal(b, 10, done)
	require.LessOrEqual(b, most, 4)
}

func workerComesBack(b *bench) {
	s := b.source(nil)
	done := 0
	w := stage.NewWorkers(func(ctx context.Context, event int) error {
		if event == 0 {
			<-ctx.Done()
			return ctx.Err()
		}
		b.note(func() { done++ })
		return nil
	})
	w.Name, w.DrainTimeout = "workers", 50*time.Millisecond
	stage.Connect(s.out, w, demand(4, 3)...)
	b.run(s)
	q := b.run(w)
	require.NoError(b, s.Push(upTo(0, 10)...))
	b.await("the others are processed", func() bool { return done == 9 })
	q.stop()
	require.ErrorIs(b, q.wait(), stage.ErrDrainTimeout)
	b.eventually("it has come back", func() bool { return s.Inspect().Buffered == 1 })
	r := b.read(s.out, terms("reader"))
	r.ask(1, 0)
	require.Equal(b, []int{0}, r.has(1))
	d := r.deliveries()[0]
	require.True(b, d.Redelivered)
	require.Equal(b, 1, d.Attempts)
}
