package stagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

var bufferScenes = []scene{
	{"the newest are kept", "BUF-03 BUF-07 DSC-01 DSC-03", overflow(stage.KeepLast(3), 8, 9, 10)},
	{"the oldest are kept", "BUF-08 DSC-01", overflow(stage.KeepFirst(3), 1, 2, 3)},
	{"nothing is kept", "BUF-14 BUF-15 DSC-05", noBuffer},
	{"what waits is for who comes next", "BUF-19 CAN-26", successor},
}

var endScenes = []scene{
	{"last events come with the end", "END-01 END-08 END-15 ITR-01", lastEvents},
	{"a partial last batch", "END-02", func(b *bench) { toTheEnd(b, 8, demand(6, 2)) }},
	{"an end without events", "END-06 CAN-03", func(b *bench) { toTheEnd(b, 0, nil) }},
	{"an end in the middle", "END-02 END-08 EDG-14", func(b *bench) { toTheEnd(b, 1234, demand(100, 20)) }},
	{"the end costs no demand", "END-08", freeEnd},
	{"what was pushed comes before the end", "END-04 END-09 END-11 BUF-20", pushedBeforeEnd},
	{"a failure is told in words", "END-07 CAN-02 CAN-05 CAN-09", func(b *bench) { failure(b, false) }},
	{"a panic is a failure", "EDG-05 CAN-09", func(b *bench) { failure(b, true) }},
	{"permanent follows a shutdown", "CAN-04", shutdown},
	{"transient and temporary live on", "CAN-06 CAN-07 CAN-08", liveOn},
	{"an iterator ends with the outlet", "ITR-03 ITR-05 ITR-07 ITR-10 ITR-13 ITR-14", folds},
	{"a fold ends with its context", "ITR-04 ITR-08", foldInTime},
	{"an iterator of what refuses", "ITR-06 ITR-15 ITR-17", refusedFold},
	{"one of two ends", "EDG-11 CAN-01", oneOfTwo},
}

// overflow pushes 1 to 10 into a buffer, before anybody subscribes.
func overflow(buffer stage.Buffer, kept ...int) func(*bench) {
	return func(b *bench) {
		s := b.source(nil, func(s *stage.Source[int]) { s.Buffer = buffer })
		b.run(s)
		require.NoError(b, s.Push(upTo(1, 11)...))
		r := b.read(s.out, terms("reader"))
		r.ask(5, 0)
		require.Equal(b, kept, r.has(3))
		require.NoError(b, s.Push(11))
		require.Equal(b, append(kept, 11), r.has(4))
		b.await("it is reported, once", func() bool { return s.reports == 1 && s.discarded[stage.DiscardOverflow] == 7 })
	}
}

func noBuffer(b *bench) {
	s := b.source(nil, func(s *stage.Source[int]) { s.Buffer = stage.KeepLast(0) })
	b.run(s)
	r := b.read(s.out, terms("reader"))
	r.ask(6, 0)
	s.granted("reader", 6)
	require.NoError(b, s.Push(upTo(0, 12)...))
	require.Equal(b, upTo(0, 6), r.has(6))
	b.await("the rest is given up", func() bool { return s.discarded[stage.DiscardOverflow] == 6 })
}

func successor(b *bench) {
	s := b.source(nil)
	b.run(s)
	first := b.read(s.out, terms("first"))
	first.ask(2, 0)
	require.NoError(b, s.Push(upTo(0, 6)...))
	require.Equal(b, []int{0, 1}, first.has(2))
	first.drain(2)
	require.Equal(b, stage.Cancelled, first.ended().Reason)
	second := b.read(s.out, terms("second"))
	second.ask(10, 0)
	require.Equal(b, []int{2, 3, 4, 5}, second.has(4))
	require.False(b, second.deliveries()[0].Redelivered, "nobody has had them")
}

func lastEvents(b *bench) {
	s := b.source(func(int) ([]int, error) { return []int{1, 2, 3, 4, 5}, io.EOF })
	k := b.sink("sink", nil)
	sub := stage.Connect(s.out, k, demand(6, 2)...)
	p := b.run(s)
	require.NoError(b, b.run(k).wait())
	require.NoError(b, p.wait())
	require.Equal(b, [][]int{{1, 2, 3, 4}, {5}}, k.all())
	require.Equal(b, stage.Completed, sub.Ending().Reason)
	require.NoError(b, sub.Ending().Err)
}

func toTheEnd(b *bench, count int, opts []stage.Option) {
	s, k := b.counter(count), b.sink("sink", nil)
	sub := stage.Connect(s.out, k, opts...)
	p := b.run(s)
	require.NoError(b, b.run(k).wait())
	require.NoError(b, p.wait())
	require.Equal(b, upTo(0, count), append([]int{}, k.events()...))
	require.Equal(b, stage.Completed, sub.Ending().Reason)
	require.Empty(b, s.discarded)
}

func freeEnd(b *bench) {
	s := b.source(nil)
	p := b.run(s)
	r, idle := b.read(s.out, terms("reader")), b.read(s.out, terms("idle"))
	r.ask(2, 0)
	require.NoError(b, s.Push(1, 2))
	r.has(2)
	require.NoError(b, r.Ack(2))
	s.Finish()
	require.Equal(b, stage.Completed, r.ended().Reason)
	require.Equal(b, stage.Completed, idle.ended().Reason, "it has never asked")
	require.NoError(b, p.wait())
	require.ErrorIs(b, s.Push(3), stage.ErrEnded)
}

func pushedBeforeEnd(b *bench) {
	s, k := b.source(nil), b.sink("sink", nil)
	require.NoError(b, s.Push(upTo(0, 50)...))
	s.Finish()
	stage.Connect(s.out, k, demand(4, 2)...)
	p := b.run(s)
	require.NoError(b, b.run(k).wait())
	require.NoError(b, p.wait())
	require.Equal(b, upTo(0, 50), k.events())
}

func failure(b *bench, panics bool) {
	for mode, dies := range map[stage.CancelMode]bool{stage.Permanent: true, stage.Transient: true, stage.Temporary: false} {
		fail := false
		s := b.source(func(int) ([]int, error) {
			switch {
			case !fail:
				fail = true
				return []int{1, 2}, nil
			case panics:
				panic("the disk is full")
			}
			return nil, errors.New("the disk is full")
		})
		k := b.sink(fmt.Sprint("sink ", mode), nil)
		sub := stage.Connect(s.out, k, mode)
		p, q := b.run(s), b.run(k)
		ending := b.done(sub)
		require.Equal(b, stage.Failed, ending.Reason)
		require.ErrorContains(b, ending.Err, "the disk is full")
		require.ErrorContains(b, p.wait(), "the disk is full")
		require.Equal(b, []int{1, 2}, k.events(), "what was sent is processed")
		if dies {
			of := new(stage.SubscriptionError)
			require.ErrorAs(b, q.wait(), &of)
			require.Equal(b, stage.Failed, of.Reason)
			require.ErrorContains(b, of, "the disk is full")
			continue
		}
		q.stop()
		require.ErrorIs(b, q.wait(), context.Canceled)
	}
}

func shutdown(b *bench) {
	s, k := b.counter(endless), b.sink("sink", nil)
	sub := stage.Connect(s.out, k)
	p, q := b.run(s), b.run(k)
	k.has(1000)
	p.stop()
	require.NoError(b, q.wait(), "it ends well too")
	require.Equal(b, stage.Shutdown, sub.Ending().Reason)
	require.ErrorIs(b, p.wait(), context.Canceled)
	require.Equal(b, upTo(0, s.made-s.discarded[stage.DiscardEnded]), k.events(), "what was made is processed, or counted")
}

func liveOn(b *bench) {
	for _, mode := range []stage.CancelMode{stage.Transient, stage.Temporary} {
		done, stopped, next := b.counter(3), b.counter(endless), b.counter(2)
		k := b.sink(fmt.Sprint("sink ", mode), nil)
		first := stage.Connect(done.out, k, mode)
		second := stage.Connect(stopped.out, k, mode)
		b.run(done)
		p, q := b.run(stopped), b.run(k)
		require.Equal(b, stage.Completed, b.done(first).Reason)
		require.NoError(b, second.Ready(b.Context()))
		p.stop()
		require.Equal(b, stage.Ending{Reason: stage.Shutdown}, b.done(second))
		b.run(next)
		require.Equal(b, stage.Completed, b.done(b.subscribe(next.out, k, stage.Permanent)).Reason)
		require.NoError(b, q.wait(), "with the one that is permanent")
	}
}

func folds(b *bench) {
	s := b.counter(101)
	b.run(s)
	sum, err := stage.Fold(b.Context(), s.out, 0, func(a, e int) int { return a + e })
	require.NoError(b, err)
	require.Equal(b, 5050, sum)

	s = b.counter(endless)
	b.run(s)
	var got []int
	for e, err := range stage.All(b.Context(), s.out, stage.MaxDemand(100)) {
		require.NoError(b, err)
		if got = append(got, e); len(got) == 310 { // in the middle of a batch
			break
		}
	}
	require.Equal(b, upTo(0, 310), got)
	b.eventually("what it has not yielded is back", func() bool { return s.Inspect().Buffered > 0 })
	k := b.sink("sink", func([]int) error { return stage.Stop })
	stage.Connect(s.out, k)
	require.NoError(b, b.run(k).wait())
	require.Equal(b, 310, k.events()[0])

	s = b.counter(endless)
	p := b.run(s)
	n, err := stage.Fold(b.Context(), s.out, 0, func(n, _ int) int {
		if n == 2000 {
			p.stop()
		}
		return n + 1
	}, demand(10, 5)...)
	require.NoError(b, err, "a producer that is stopped is the end of it")
	require.Greater(b, n, 2000)

	s = b.source(func(int) ([]int, error) { return nil, errOops })
	b.run(s)
	_, err = stage.Fold(b.Context(), s.out, 0, func(a, e int) int { return a + e })
	require.ErrorContains(b, err, "oops")
	require.False(b, strings.Contains(err.Error(), "timed out"))
}

func foldInTime(b *bench) {
	s := b.counter(endless)
	p := b.run(s)
	ctx, cancel := context.WithCancelCause(b.Context())
	_, err := stage.Fold(ctx, s.out, 0, func(n, _ int) int {
		if n == 5000 {
			cancel(errOops)
		}
		return n + 1
	})
	require.ErrorIs(b, err, errOops)
	require.False(b, p.ended(), "the producer lives")
	b.eventually("it has no subscriber", func() bool { return len(s.Inspect().Subscribers) == 0 })
}

func refusedFold(b *bench) {
	s := b.counter(endless, partitioned)
	p := b.run(s)
	_, err := stage.Fold(b.Context(), s.out, 0, func(n, _ int) int { return n + 1 })
	require.ErrorContains(b, err, dispatch.ErrNoPartition.Error())
	for range 2 {
		var errs []error
		for _, err := range stage.All(b.Context(), s.out, demand(1, 1)...) {
			errs = append(errs, err)
		}
		require.Len(b, errs, 1)
		require.ErrorIs(b, errs[0], stage.ErrInvalidDemand)
	}
	require.False(b, p.ended(), "the producer lives")
}

// The first of several permanent subscriptions to end takes the stage with it.
func oneOfTwo(b *bench) {
	short, long := b.counter(5), b.counter(endless)
	k := b.sink("sink", nil)
	stage.Connect(short.out, k)
	other := stage.Connect(long.out, k)
	b.run(short)
	b.run(long)
	require.NoError(b, b.run(k).wait())
	require.Equal(b, stage.Cancelled, b.done(other).Reason)
	b.eventually("the other producer has no subscriber", func() bool { return len(long.Inspect().Subscribers) == 0 })
}
