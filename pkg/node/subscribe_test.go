package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A subscription waits for an outlet that is not there yet.
func TestOutletThatComesLater(t *testing.T) {
	t.Parallel()
	const count = 1000
	b := testNode("b", Config{})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	runB := start(t, b, sink)
	eventually(t, "it is seen to wait, and for what", func() bool {
		rows := b.inboundAll()
		return len(rows) == 1 && rows[0].row().GetState() == "waiting" &&
			rows[0].row().GetReason() == "numbers: unknown-outlet: no node offers it"
	})
	a := testNode("a", Config{Join: join(b)})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)
	require.NoError(t, errors.Join(runB.wait(), runA.wait()))
	got.inOrder(t, count)
}

// Who comes late to an outlet that has ended is told how it ended.
func TestOutletThatHasEnded(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, other := numbers(10), endless()
	Publish(a, ints, source)
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, source, other)
	b := testNode("b", Config{Join: join(a)})
	var first, second record
	sinks := []*stage.Sink[int]{first.sink("first"), second.sink("second")}
	stage.Connect(Outlet(b, ints), sinks[0])
	require.NoError(t, start(t, b, sinks[0]).wait())
	first.inOrder(t, 10)
	c := testNode("c", Config{Join: join(a)})
	eventually(t, "the catalog says so", func() bool { return a.catalog().Outlets != nil && a.ended == 1 || a.endedNow() == 1 })
	stage.Connect(Outlet(c, ints), sinks[1])
	require.NoError(t, start(t, c, sinks[1]).wait())
	require.Zero(t, second.len())
}

func (n *Node) endedNow() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// Ports that differ are refused, naming both.
func TestMismatch(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	texts := stage.NewSink(func(context.Context, []string) error { return nil })
	stage.Connect(Outlet(b, wire.JSON[string]("numbers")), texts)
	err := start(t, b, texts).wait()
	require.ErrorIs(t, err, wire.RuleTypeMismatch)
	require.ErrorContains(t, err, "carries int, and the subscriber wants string")
	require.ErrorContains(t, err, "numbers at a")
	var ended *stage.SubscriptionError
	require.ErrorAs(t, err, &ended)
	require.Equal(t, stage.Refused, ended.Reason)

	c := testNode("c", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(c, wire.New[int]("numbers", &badCodec{})), sink)
	err = start(t, c, sink).wait()
	require.ErrorIs(t, err, wire.RuleCodecMismatch)
	require.ErrorContains(t, err, "written in json, and the subscriber reads bad")
}

// Subscribe gives up after its timeout, says what it has waited for, and leaves nothing.
func TestSubscribeTimeout(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	other := endless()
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, other)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, wire.JSON[int]("other")), sink, stage.Temporary)
	start(t, b, sink)
	_, err := stage.Subscribe(t.Context(), Outlet(b, ints), sink, stage.Timeout(100*time.Millisecond))
	require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
	require.ErrorIs(t, err, wire.RuleUnknownOutlet)
	require.ErrorContains(t, err, "no node offers it")
	eventually(t, "it is gone", func() bool { return len(b.inboundAll()) == 1 })
}

// A node that cannot be reached is named, by Subscribe too; and a subscription that
// nobody waits for any more does not stay behind, nor keep its node.
func TestWithdrawnBeforeItWasAccepted(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source := endless()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	other := endless()
	var got record
	sink := got.sink("sink")
	stage.Connect(other, sink, stage.Temporary)
	runB := start(t, b, other, sink)
	eventually(t, "the outlet is known", func() bool {
		found, _ := b.cluster.find("numbers", "")
		return len(found) == 1
	})
	link.Refuse()
	_, err := stage.Subscribe(t.Context(), Outlet(b, ints), sink, stage.Timeout(300*time.Millisecond))
	require.ErrorIs(t, err, stage.ErrSubscribeTimeout)
	require.ErrorContains(t, err, `node "a"`)
	begin := time.Now()
	eventually(t, "it is gone", func() bool { return len(b.inboundAll()) == 0 })
	runB.stop()
	require.ErrorIs(t, runB.wait(), context.Canceled)
	require.Less(t, time.Since(begin), b.tuning.farewell, "nobody has got an Open that is to be taken back")
}

// A declared subscription that waits keeps nobody from stopping.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source := endless()
	Publish(a, ints, source)
	through(t, a, link, source)
	link.Refuse()
	b := testNode("b", Config{Join: join(a)})
	var got, more record
	sink, other := got.sink("sink"), more.sink("other")
	stage.Connect(Outlet(b, ints), sink)                    // cannot be reached
	stage.Connect(Outlet(b, wire.JSON[int]("none")), other) // is not there
	runB := start(t, b, sink, other)
	// It has been tried, in vain.
	eventually(t, "both wait", func() bool {
		n := 0
		for _, i := range b.inboundAll() {
			if i.row().GetState() == "waiting" {
				n++
			}
		}
		return n == 2
	})
	begin := time.Now()
	runB.stop()
	require.ErrorIs(t, runB.wait(), context.Canceled)
	require.Less(t, time.Since(begin), b.tuning.farewell)
}

// Subscribe, cancel, subscribe: the second finds the place free, and no event is
// repeated or lost.
func TestSubscribeAgain(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	never, _ := pushed()
	var got record
	sink := got.sink("sink")
	stage.Connect(never, sink, stage.Temporary)
	start(t, b, never, sink)
	for range 30 {
		before := got.len()
		sub, err := stage.Subscribe(t.Context(), Outlet(b, ints), sink, stage.Temporary, stage.MaxDemand(50))
		require.NoError(t, err)
		eventually(t, "it flows", func() bool { return got.len() > before })
		require.True(t, sub.Cancel())
		<-sub.Done()
		require.Equal(t, stage.Cancelled, sub.Ending().Reason)
	}
	seen := got.all()
	require.NoError(t, counted(seen, len(seen)))
}

// Two stages of one name in one node would take the subscription from each other.
func TestTwoStagesOfOneName(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	one, two := got.sink("sink"), got.sink("sink")
	stage.Connect(Outlet(b, ints), one)
	stage.Connect(Outlet(b, ints), two)
	err := stage.Run(t.Context(), b, one, two)
	require.ErrorIs(t, err, stage.ErrAlreadySubscribed)
	require.ErrorContains(t, err, `another stage of node "b" has the name "sink" too`)
}

// A partition is kept for its subscriber while that may come back, and others are told
// to try again: they have it when the window is over.
func TestPartitionIsKept(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	source.Dispatcher = dispatch.Partition(2, func(n int) int { return n % 2 })
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	zero := int32(0)
	c.open(func(o *sluicev1.Open) { o.Subscriber.Partition = &zero })
	c.recv()
	other := dialRaw(t, a.Address())
	mine := func(o *sluicev1.Open) { o.Subscriber.Partition, o.Subscriber.Stage = &zero, "other" }
	other.open(mine)
	other.refused(wire.RulePartitionTaken)
	c.gone()
	p := a.published["numbers"].(*published[int])
	eventually(t, "it has no stream", func() bool { return p.sessions()[0].detached() })
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink, stage.InPartition(0))
	start(t, b, sink)
	eventually(t, "it has the partition", func() bool { return got.len() > 10 })
	for _, e := range got.all() {
		require.Zero(t, e%2)
	}
	other.dial()
	other.open(func(o *sluicev1.Open) { mine(o); o.Attempt, o.Subscriber.Partition = 2, nil })
	other.refused(wire.RulePartitionRequired)
	_ = other.conn.Close()
}

// A broadcast reaches everybody, whole.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	const count = 5000
	a := testNode("a", Config{})
	source, push := pushed()
	source.Dispatcher = dispatch.Broadcast[int]()
	Publish(a, ints, source)
	start(t, a, source)
	var got [3]record
	for i := range got {
		n := testNode("n"+strconv.Itoa(i), Config{Join: join(a)})
		sink := got[i].sink("sink")
		stage.Connect(Outlet(n, ints), sink)
		start(t, n, sink)
	}
	eventually(t, "all have subscribed", func() bool { return len(a.published["numbers"].rows()) == len(got) })
	for i := range count {
		push(i)
	}
	for i := range got {
		eventually(t, "all of it arrives", func() bool { return got[i].len() == count })
		got[i].inOrder(t, count)
	}
}

// An outlet of the node itself is found like any other.
func TestOwnOutlet(t *testing.T) {
	t.Parallel()
	const count = 1000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(a, ints), sink)
	require.NoError(t, start(t, a, source, sink).wait())
	got.inOrder(t, count)
}

// G9: asks, acks, cancels, drains and looks, from many goroutines at once.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source := endless()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	never, _ := pushed()
	var runners []stage.Runner
	var sinks []*stage.Sink[int]
	var total record
	for i := range 8 {
		s := total.sink("sink-" + strconv.Itoa(i))
		stage.Connect(never, s, stage.Temporary)
		sinks = append(sinks, s)
		runners = append(runners, s)
	}
	start(t, b, append(runners, never)...)
	eventually(t, "the outlet is known", func() bool {
		found, _ := b.cluster.find("numbers", "")
		return len(found) == 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i, s := range sinks {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for ctx.Err() == nil {
				opts := []stage.Option{stage.Temporary, stage.MaxDemand(1 + r.IntN(200))}
				if r.IntN(2) == 0 {
					opts = append(opts, stage.Manual())
				}
				sub, err := stage.Subscribe(ctx, Outlet(b, ints), s, opts...)
				if err != nil {
					continue
				}
				var askers sync.WaitGroup
				for range 3 {
					askers.Go(func() {
						for range 20 {
							_ = sub.Ask(1 + int(time.Now().UnixNano()%50))
							sub.Info()
						}
					})
				}
				askers.Wait()
				sub.Cancel()
				<-sub.Done()
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			link.Cut()
			for _, x := range []*Node{a, b} {
				_, _ = (&admin{n: x}).ListSubscriptions(ctx, &sluicev1.ListSubscriptionsRequest{})
			}
		}
	})
	wg.Wait()
	require.NotZero(t, total.len())
	seen := total.all()
	times := map[int]int{}
	for _, e := range seen {
		times[e]++
		require.LessOrEqual(t, times[e], 1, "event %d came twice, although everybody lived", e)
	}
	free := func() bool { return len(a.published["numbers"].rows()) == 0 }
	if !assert.Eventually(t, free, patience, 5*time.Millisecond, "every place is free") {
		t.Log(a.what(), b.what())
	}
}

// A stage may subscribe while its node starts: it waits for that, and hears of it when
// the start fails.
func TestSubscribeWhileTheNodeStarts(t *testing.T) {
	n := testNode("a", Config{})
	require.NoError(t, n.begin(nil), "this is as far as the start has come")
	var got record
	sink := got.sink("sink")
	sub := stage.Connect(Outlet(n, ints), sink)
	ended := make(chan error)
	go func() { ended <- sink.Run(t.Context()) }()
	eventually(t, "it has subscribed", func() bool { return len(n.inboundAll()) == 1 })
	n.shut()
	require.NoError(t, <-ended)
	require.Equal(t, stage.Cancelled, sub.Ending().Reason)
}
