package node

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/pkg/stage"
)

// random is seeded by SLUICE_TEST_SEED, or anew; the seed is logged.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SLUICE_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	t.Logf("SLUICE_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// sever cuts a link again and again until ctx ends: in the middle of an Open, of a
// batch, of nothing, and now and then twice in a row. It returns how often.
func sever(ctx context.Context, l *faultnet.Link, r *rand.Rand, most int) int {
	cuts := 0
	for ctx.Err() == nil && cuts < most {
		switch n := r.IntN(10); {
		case n == 0:
			l.CutAfter(r.Int64N(600)) // while it opens
		case n < 8:
			l.CutAfter(r.Int64N(40_000))
		default:
			l.Cut()
			l.CutAfter(r.Int64N(2000)) // and again
			cuts++
		}
		// The next cut is prepared when somebody is there to notice.
		for before := l.Accepted(); ctx.Err() == nil && l.Accepted() == before; {
			time.Sleep(time.Millisecond)
		}
		cuts++
	}
	l.Heal()
	return cuts
}

// G6: that a Send has returned says nothing of what has arrived. The connection breaks at any moment, any number of times: every event arrives once
// and in order, and both ends end well.
func TestEveryEventOnceWhateverIsCut(t *testing.T) {
	t.Parallel()
	const count = 200_000
	r := random(t)
	a, link := linked(t, "a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := through(t, a, link, source)

	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	runB := start(t, b, sink)

	ctx, cancel := context.WithCancel(t.Context())
	cuts := make(chan int, 1)
	go func() { cuts <- sever(ctx, link, r, 60) }()
	errA, errB := runA.wait(), runB.wait()
	cancel()
	t.Logf("%d cuts", <-cuts)
	require.NoError(t, errA)
	require.NoError(t, errB)
	got.inOrder(t, count)
}

// The same for short flows, where most cuts hit the beginning or the end.
func TestCutsAroundOpenAndEnd(t *testing.T) {
	t.Parallel()
	r := random(t)
	for range 8 {
		count := 1 + r.IntN(3000)
		a, link := linked(t, "a", Config{Cluster: "short"})
		source := numbers(count)
		Publish(a, ints, source)
		runA := through(t, a, link, source)
		b := testNode("b", Config{Cluster: "short", Join: join(a)})
		var got record
		sink := got.sink("sink")
		stage.Connect(Outlet(b, ints), sink, stage.MaxDemand(1+r.IntN(500)))
		link.CutAfter(r.Int64N(int64(count)*10 + 400))
		runB := start(t, b, sink)
		for range 2 {
			for before := link.Accepted(); link.Open() > 0 && link.Accepted() == before && got.len() < count; {
				time.Sleep(time.Millisecond)
			}
			link.CutAfter(r.Int64N(600))
		}
		require.NoError(t, runB.wait(), "%d events", count)
		link.Heal()
		require.NoError(t, runA.wait(), "%d events", count)
		got.inOrder(t, count)
	}
}

// A gate in the middle, and cuts on both sides of it.
func TestGateBetweenCutLinks(t *testing.T) {
	t.Parallel()
	const count = 60_000
	r := random(t)
	a, linkA := linked(t, "a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := through(t, a, linkA, source)

	b, linkB := linked(t, "b", Config{Join: join(a)})
	gate := stage.NewGate(stage.Map(double))
	stage.Connect(Outlet(b, ints), gate)
	Publish(b, doubled, gate)
	runB := through(t, b, linkB, gate)

	c := testNode("c", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(c, doubled), sink)
	runC := start(t, c, sink)

	ctx, cancel := context.WithCancel(t.Context())
	cuts := make(chan int, 2)
	for _, l := range []*faultnet.Link{linkA, linkB} {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		go func() { cuts <- sever(ctx, l, own, 20) }()
	}
	errA, errB, errC := runA.wait(), runB.wait(), runC.wait()
	cancel()
	t.Logf("%d cuts", <-cuts+<-cuts)
	require.NoError(t, errors.Join(errA, errB, errC))
	require.Equal(t, count, got.len())
	for i, e := range got.all() {
		if e != 2*i {
			require.Equal(t, 2*i, e)
		}
	}
}

// Two sinks of two nodes share one outlet; both links are cut. Over both, each event
// comes once.
func TestTwoSinksShareTheEvents(t *testing.T) {
	t.Parallel()
	const count = 60_000
	r := random(t)
	a, link := linked(t, "a", Config{})
	both := make(chan struct{})
	next := 0
	source := stage.NewSource(func(ctx context.Context, demand int) ([]int, error) {
		<-both
		var events []int
		for ; len(events) < demand && next < count; next++ {
			events = append(events, next)
		}
		if next == count {
			return events, io.EOF
		}
		return events, nil
	})
	Publish(a, ints, source)
	runA := through(t, a, link, source)
	var got [2]record
	var runs []*program
	for i := range got {
		n := testNode([]string{"b", "c"}[i], Config{Join: join(a)})
		sink := got[i].sink("sink")
		stage.Connect(Outlet(n, ints), sink)
		runs = append(runs, start(t, n, sink))
	}
	eventually(t, "both have subscribed", func() bool { return len(a.published["numbers"].rows()) == 2 })
	close(both)
	ctx, cancel := context.WithCancel(t.Context())
	cuts := make(chan int, 1)
	go func() { cuts <- sever(ctx, link, r, 20) }()
	errs := errors.Join(runA.wait(), runs[0].wait(), runs[1].wait())
	cancel()
	t.Logf("%d cuts, %d and %d events", <-cuts, got[0].len(), got[1].len())
	require.NoError(t, errs)
	once(t, count, &got[0], &got[1])
	require.NotZero(t, got[0].len())
	require.NotZero(t, got[1].len())
}

// A link that is slow breaks nothing.
func TestDelayedLink(t *testing.T) {
	t.Parallel()
	const count = 20_000
	a, link := linked(t, "a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := through(t, a, link, source)
	link.Delay(20 * time.Millisecond)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	runB := start(t, b, sink)
	require.NoError(t, errors.Join(runA.wait(), runB.wait()))
	got.inOrder(t, count)
}

// A link that goes silent: keepalive notices, and the session goes on over another
// connection. The producer's side notices here, which pings every second.
func TestStalledLink(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	a.tuning.keepalive.every, a.tuning.keepalive.timeout = time.Second, time.Second
	source, push := pushed()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	push(0, 1, 2)
	eventually(t, "events arrive", func() bool { return got.len() == 3 })

	link.Stall(true, true)
	push(3, 4, 5)
	eventually(t, "the producer notices", func() bool {
		rows := a.published["numbers"].rows()
		return len(rows) == 1 && rows[0].GetState() == "reconnecting"
	})
	link.Heal()
	eventually(t, "the rest arrives", func() bool { return got.len() == 6 })
	got.inOrder(t, 6)
}

// A producer that is gone for good: after the window the subscription is lost, by the
// name of the outlet and of the node.
func TestLostProducer(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source := endless()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink, stage.ResumeWindow(time.Second))
	runB := start(t, b, sink)
	eventually(t, "events arrive", func() bool { return got.len() > 1000 })

	begin := time.Now()
	link.Refuse()
	err := runB.wait()
	took := time.Since(begin)
	var lost *stage.SubscriptionError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, "numbers", lost.Outlet)
	require.Equal(t, stage.Lost, lost.Reason)
	require.ErrorContains(t, err, `node "a" did not come back within 1s`)
	require.Greater(t, took, time.Second, "the window is waited for")
	require.Less(t, took, 8*time.Second)
	seen := got.all()
	require.NoError(t, counted(seen, len(seen)), "what was received is processed, in order")
}

// The window counts from the break, and a stream that opens ends it: many breaks, each
// shorter than the window, are together longer.
func TestWindowCountsFromTheBreak(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source, push := pushed()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink, stage.ResumeWindow(1500*time.Millisecond))
	start(t, b, sink)
	begin := time.Now()
	for n := 0; time.Since(begin) < 3*time.Second; n++ {
		push(n)
		eventually(t, "it arrives", func() bool { return got.len() == n+1 })
		link.Refuse()
		time.Sleep(300 * time.Millisecond) // this is the fault
		link.Heal()
	}
	got.inOrder(t, got.len())
}

// A consumer is gone for good: after the producer's window, what it had not processed
// goes to another one.
func TestConsumerGone(t *testing.T) {
	t.Parallel()
	const count = 20_000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)

	// The first sink takes its time, so that it holds something when it is killed.
	b := testNode("b", Config{Join: join(a)})
	var first, second record
	var killed atomic.Bool
	slow := stage.NewSink(func(ctx context.Context, events []int) error {
		if killed.Load() {
			return errors.New("killed")
		}
		first.add(events)
		time.Sleep(time.Millisecond)
		return nil
	})
	stage.Connect(Outlet(b, ints), slow, stage.ResumeWindow(300*time.Millisecond), stage.MaxDemand(500))
	start(t, b, slow)
	eventually(t, "the first sink works", func() bool { return first.len() > 0 })
	killed.Store(true)
	b.kill()

	c := testNode("c", Config{Join: join(a)})
	sink := second.sink("sink")
	stage.Connect(Outlet(c, ints), sink)
	runC := start(t, c, sink)
	require.NoError(t, runA.wait())
	require.NoError(t, runC.wait())
	// What was processed and not acknowledged comes twice; nothing is lost.
	times := make([]int, count)
	for _, e := range append(first.all(), second.all()...) {
		times[e]++
	}
	twice := 0
	for e, n := range times {
		require.NotZero(t, n, "event %d is lost", e)
		twice += n - 1
	}
	require.LessOrEqual(t, twice, 500, "at most what was asked for")
}

// With AtMostOnce, what a consumer that is gone had is gone too, and counted.
func TestAtMostOnce(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, push := pushed()
	var discards record
	source.OnDiscard = func(reason string, n int) {
		if reason == stage.DiscardAtMostOnce {
			discards.add(make([]int, n))
		}
	}
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	hold := make(chan struct{})
	defer close(hold)
	entered := make(chan struct{}, 1)
	stuck := stage.NewSink(func(ctx context.Context, events []int) error {
		entered <- struct{}{}
		<-hold
		return errors.New("killed")
	})
	stage.Connect(Outlet(b, ints), stuck, stage.ResumeWindow(100*time.Millisecond), stage.AtMostOnce(), stage.MaxDemand(4))
	start(t, b, stuck)
	push(0, 1, 2)
	<-entered
	go b.kill()
	eventually(t, "they are discarded by name", func() bool { return discards.len() == 3 })

	c := testNode("c", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(c, ints), sink)
	start(t, c, sink)
	push(3)
	eventually(t, "the next one arrives", func() bool { return got.len() > 0 })
	require.Equal(t, []int{3}, got.all())
}

// A consumer that comes back as a new process has its place at once, and not after
// the window of its old self.
func TestRestartedConsumer(t *testing.T) {
	t.Parallel()
	const count = 5000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)

	var first, second record
	b := testNode("b", Config{Join: join(a)})
	var killed atomic.Bool
	slow := stage.NewSink(func(ctx context.Context, events []int) error {
		if killed.Load() {
			return errors.New("killed")
		}
		first.add(events)
		time.Sleep(2 * time.Millisecond)
		return nil
	})
	slow.Name = "sink"
	stage.Connect(Outlet(b, ints), slow, stage.MaxDemand(100)) // its window is 30 s
	start(t, b, slow)
	eventually(t, "the first sink works", func() bool { return first.len() > 0 })
	killed.Store(true)
	b.kill()

	again := testNode("b", Config{Join: join(a)})
	require.Greater(t, again.incarnation, b.incarnation)
	sink := second.sink("sink")
	stage.Connect(Outlet(again, ints), sink)
	begin := time.Now()
	runB := start(t, again, sink)
	require.NoError(t, runB.wait())
	require.NoError(t, runA.wait())
	require.Less(t, time.Since(begin), 10*time.Second)
	seen := make([]bool, count)
	for _, e := range append(first.all(), second.all()...) {
		seen[e] = true
	}
	for e := range seen {
		require.True(t, seen[e], "event %d is lost", e)
	}
}

// A stage that cancels while its producer cannot be reached is let go after a while.
// The producer hears what it has processed when the connection is back: nothing comes
// twice.
func TestCancelWhileTheLinkIsDown(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source, push := pushed()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	b.tuning.farewell = 300 * time.Millisecond
	var first, second record
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := stage.NewSink(func(_ context.Context, events []int) error {
		entered <- struct{}{}
		<-leave
		first.add(events)
		return nil
	})
	never, _ := pushed()
	stage.Connect(never, slow)
	sub := stage.Connect(Outlet(b, ints), slow, stage.Temporary)
	start(t, b, never, slow)
	eventually(t, "it has subscribed", func() bool { return len(a.published["numbers"].rows()) == 1 })
	push(0)
	<-entered
	link.Refuse()
	close(leave) // it is processed, and nobody can be told
	push(1)
	require.True(t, sub.Cancel())
	begin := time.Now()
	<-sub.Done()
	require.Less(t, time.Since(begin), b.tuning.farewell+5*time.Second)
	require.Equal(t, stage.Cancelled, sub.Ending().Reason)
	require.ErrorContains(t, sub.Ending().Err, `node "a" could not be told what was processed`)
	link.Heal()
	eventually(t, "the producer is told", func() bool { return len(a.published["numbers"].rows()) == 0 })

	c := testNode("c", Config{Join: join(a)})
	sink := second.sink("sink")
	stage.Connect(Outlet(c, ints), sink)
	start(t, c, sink)
	push(2)
	eventually(t, "the rest comes to another one", func() bool { return second.len() == 2 })
	require.Equal(t, []int{0}, first.all())
	require.Equal(t, []int{1, 2}, second.all())
}

// A consumer that is stopped while its producer cannot be reached does not wait for
// the window.
func TestStopWithoutProducer(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source := endless()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	b.tuning.farewell = 300 * time.Millisecond
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	runB := start(t, b, sink)
	eventually(t, "events arrive", func() bool { return got.len() > 1000 })
	link.Refuse()
	runB.stop()
	begin := time.Now()
	require.ErrorIs(t, runB.wait(), context.Canceled)
	require.Less(t, time.Since(begin), b.tuning.farewell+10*time.Second)
	a.kill() // it would wait for its consumer
}
