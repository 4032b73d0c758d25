package node

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// A subscription gets everything from everybody, and completes with the last.
func TestTwoPublishers(t *testing.T) {
	t.Parallel()
	const count = 2000
	b := testNode("b", Config{})
	var mu sync.Mutex
	from := map[string]int{}
	var got record
	sink := stage.NewSink(func(ctx context.Context, events []int) error {
		d, _ := stage.Delivery(ctx)
		mu.Lock()
		from[d.Publisher] += len(events)
		mu.Unlock()
		got.add(events)
		return nil
	})
	sub := stage.Connect(Outlet(b, ints), sink, stage.MaxDemand(100))
	runB := start(t, b, sink)
	var pushes []func(...int)
	var sources []*stage.Source[int]
	for _, name := range []string{"a1", "a2"} {
		a := testNode(name, Config{Join: join(b)})
		source, push := pushed()
		Publish(a, ints, source)
		start(t, a, source)
		pushes, sources = append(pushes, push), append(sources, source)
	}
	give := func(from, to int) {
		for e := from; e < to; e++ {
			pushes[e*2/count](e)
		}
	}
	give(0, 500)
	give(1000, 1500)
	eventually(t, "both are followed", func() bool { return got.len() == 1000 })
	require.Len(t, b.inboundAll(), 2, "one row for each")
	require.EqualValues(t, 1000, sub.Info().Received)
	give(500, 1000)
	eventually(t, "the first one has given all", func() bool { return got.len() == 1500 })
	sources[0].Finish()
	eventually(t, "it is not followed any more", func() bool { return len(b.inboundAll()) == 1 })
	require.Zero(t, sub.Ending())
	give(1500, 2000)
	eventually(t, "the second one too", func() bool { return got.len() == count })
	sources[1].Finish()
	require.NoError(t, runB.wait())
	once(t, count, &got)
	require.Equal(t, map[string]int{"a1": count / 2, "a2": count / 2}, from)
}

// A publisher that is started anew, elsewhere, takes its place back at once; a killed
// one takes nothing from the others.
func TestRestartedPublisher(t *testing.T) {
	t.Parallel()
	b := testNode("b", Config{})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	publish := func(name string) (*Node, func(...int)) {
		a := testNode(name, Config{Join: join(b)})
		source, push := pushed()
		Publish(a, ints, source)
		start(t, a, source)
		return a, push
	}
	first, push := publish("a")
	_, other := publish("o")
	push(1)
	other(2)
	eventually(t, "both are followed", func() bool { return got.len() == 2 })
	first.kill()
	other(3)
	eventually(t, "the other one flows", func() bool { return got.len() == 3 })
	_, push = publish("a")
	push(4)
	eventually(t, "it is followed again", func() bool { return slices.Contains(got.all(), 4) })
	eventually(t, "the session to what it was is over", func() bool { return len(b.inboundAll()) == 2 })
}

// Who follows one publisher prefers its zone, goes to another publisher when that one
// leaves, with nothing lost, and soon when it is killed.
func TestOneFailsOver(t *testing.T) {
	t.Parallel()
	b := testNode("b", Config{Zone: "here"})
	b.tuning.farewell = 300 * time.Millisecond // to the one that is killed
	var got record
	sink := got.sink("sink")
	never, _ := pushed()
	stage.Connect(never, sink, stage.Temporary)
	start(t, b, never, sink)
	nodes, sources := map[string]*program{}, map[string]*stage.Source[int]{}
	publish := func(name, zone string) {
		a := testNode(name, Config{Join: join(b), Zone: zone})
		source := endless()
		Publish(a, ints, source)
		nodes[name], sources[name] = start(t, a, source), source
	}
	publish("far", "there")
	publish("near", "here")
	eventually(t, "both are known", func() bool {
		found, _ := b.cluster.find("numbers", "")
		return len(found) == 2
	})
	sub, err := stage.Subscribe(t.Context(), Outlet(b, ints, One()), sink, stage.Temporary, stage.MaxDemand(10))
	require.NoError(t, err)
	at := func() (all []string) {
		for _, i := range b.inboundAll() {
			all = append(all, i.row().GetProducerNode())
		}
		return all
	}
	eventually(t, "it flows", func() bool { return got.len() > 100 })
	require.Equal(t, []string{"near"}, at())
	nodes["near"].stop()
	require.ErrorIs(t, nodes["near"].wait(), context.Canceled)
	info := sources["near"].Inspect()
	eventually(t, "the other one is followed", func() bool { return slices.Equal(at(), []string{"far"}) })
	before := got.len()
	eventually(t, "it flows", func() bool { return got.len() > before+100 })
	require.EqualValues(t, info.Out-sum(info.Discarded), last(got.all())+1, "what the first one sent has arrived")

	publish("near2", "here")
	eventually(t, "it is known", func() bool {
		found, _ := b.cluster.find("numbers", "")
		return len(found) == 2
	})
	require.Equal(t, []string{"far"}, at(), "who is followed is stayed with")
	begin := time.Now()
	nodes["far"].n.kill()
	eventually(t, "the next one is followed", func() bool { return slices.Contains(at(), "near2") })
	before = got.len()
	eventually(t, "it flows", func() bool { return got.len() > before+100 })
	require.Less(t, time.Since(begin), stage.DefaultResumeWindow-5*time.Second, "the window is not waited for")
	require.Zero(t, sub.Ending())
	require.True(t, sub.Cancel())
	nodes["near2"].stop()
}

// last is how far the numbers of the first publisher came: those of the next begin anew.
func last(all []int) int {
	for i, e := range all {
		if e != i {
			return i - 1
		}
	}
	return len(all) - 1
}

// A publisher that is expected is waited for, and one that refuses leaves the others.
func TestExpectAndRefusal(t *testing.T) {
	t.Parallel()
	b := testNode("b", Config{})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints, Expect(2)), sink)
	runB := start(t, b, sink)
	other := testNode("other", Config{Join: join(b)})
	texts := stage.FromSeq(slices.Values([]string{"x"}))
	Publish(other, wire.JSON[string]("numbers"), texts)
	for i := range 2 {
		a := testNode("a"+strconv.Itoa(i), Config{Join: join(b)})
		source := stage.FromSeq(slices.Values([]int{2 * i, 2*i + 1}))
		Publish(a, ints, source)
		start(t, a, source)
		eventually(t, "it has brought what it has", func() bool { return got.len() == 2*i+2 })
		if i == 0 {
			start(t, other, texts)
			eventually(t, "one row waits, and says why", func() bool {
				rows := b.inboundAll()
				return len(rows) == 1 && rows[0].row().GetState() == "waiting"
			})
			require.Zero(t, sink.Inspect().Err)
		}
	}
	require.NoError(t, runB.wait())
	got.inOrder(t, 4)
}

// A publisher of another type that is found first is said, and does not end what has
// others a moment later.
func TestMismatchBesideOthers(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]OutletOption{"all": nil, "one": {One()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := testNode("other", Config{})
			texts := stage.FromSeq(slices.Values([]string{"x"}))
			Publish(other, wire.JSON[string]("numbers"), texts)
			start(t, other, texts)
			b := testNode("b", Config{Join: join(other)})
			b.tuning.settle = patience
			var got record
			sink := got.sink("sink")
			stage.Connect(Outlet(b, ints, opts...), sink)
			runB := start(t, b, sink)
			eventually(t, "it is said whom it does not fit", func() bool {
				rows := b.inboundAll()
				return len(rows) == 1 && strings.Contains(rows[0].row().GetReason(), "carries string, and the subscriber wants int")
			})
			a := testNode("a", Config{Join: join(b)})
			source := numbers(3)
			Publish(a, ints, source)
			start(t, a, source)
			require.NoError(t, runB.wait())
			got.inOrder(t, 3)
		})
	}
}

// A partition is that of every publisher.
func TestPartitionOfTwoPublishers(t *testing.T) {
	t.Parallel()
	b := testNode("b", Config{})
	var got [2]record
	var sinks []stage.Runner
	for i := range got {
		s := got[i].sink("sink-" + strconv.Itoa(i))
		stage.Connect(Outlet(b, ints, One(), Expect(2)), s, stage.InPartition(i))
		sinks = append(sinks, s)
	}
	runB := start(t, b, sinks...)
	for i := range 2 {
		a := testNode("a"+strconv.Itoa(i), Config{Join: join(b)})
		source := numbers(100)
		source.Dispatcher = dispatch.Partition(2, func(n int) int { return n % 2 })
		Publish(a, ints, source)
		start(t, a, source)
	}
	require.NoError(t, runB.wait())
	for i := range got {
		require.Len(t, got[i].all(), 100)
		for _, e := range got[i].all() {
			require.Equal(t, i, e%2)
		}
	}
}

// What is asked for by hand is divided, and never exceeded in all.
func TestManualOfTwoPublishers(t *testing.T) {
	t.Parallel()
	b := testNode("b", Config{})
	var got record
	sink := got.sink("sink")
	sub := stage.Connect(Outlet(b, ints), sink, stage.Manual())
	start(t, b, sink)
	var first *Node
	for i := range 2 {
		a := testNode("a"+strconv.Itoa(i), Config{Join: join(b)})
		source, push := pushed()
		if i == 1 {
			source = endless()
		}
		_ = push
		Publish(a, ints, source)
		start(t, a, source)
		if i == 0 {
			first = a
		}
	}
	eventually(t, "both have accepted", func() bool {
		rows := b.inboundAll()
		return len(rows) == 2 && rows[0].row().GetState() == "no-demand" && rows[1].row().GetState() == "no-demand"
	})
	require.NoError(t, sub.Ask(10))
	eventually(t, "half of it comes from the one that has something", func() bool { return got.len() == 5 })
	// The other one ends for good, and what it was asked for is asked of the first.
	first.stages[0].(*stage.Source[int]).Finish()
	eventually(t, "the rest comes from the other one", func() bool { return got.len() == 10 })
	require.Zero(t, sub.Info().Credit)
}
