package node

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// living are the names of the nodes that n sees, itself excluded.
func living(n *Node) map[string]bool {
	all := map[string]bool{}
	members, _ := n.cluster.view()
	for _, m := range members {
		if !m.gone {
			all[m.node] = true
		}
	}
	return all
}

func sees(t *testing.T, n *Node, others ...*Node) {
	t.Helper()
	eventually(t, n.Name()+" sees the right ones", func() bool {
		all := living(n)
		for _, o := range others {
			if !all[o.Name()] {
				return false
			}
		}
		return len(all) == len(others)
	})
}

// remembers reports whether a node lists another one, be it as dead.
func remembers(n *Node, other string) bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.cluster.named(other)
}

// T22: whoever joins once and never again stays apart after a split that lasts longer
// than gossip remembers. Here all call whom they miss, also when the seeds are gone for
// good. Streams do not notice any of it.
func TestTrapT22SplitHeals(t *testing.T) {
	t.Parallel()
	e := &ether{}
	hub := e.carry(testNode("hub", Config{}))
	start(t, hub)
	a := e.carry(testNode("a", Config{Join: join(hub)}))
	source, push := pushed()
	Publish(a, ints, source)
	a.tuning.forget = time.Second
	start(t, a, source)
	b := e.carry(testNode("b", Config{Join: join(hub)}))
	b.tuning.forget = time.Second
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	c := e.carry(testNode("c", Config{Join: join(hub)}))
	c.tuning.forget = 2 * time.Second
	start(t, c)
	for _, n := range []*Node{a, b, c} {
		eventually(t, "all have met", func() bool { return len(living(n)) == 3 })
	}
	require.NoError(t, hub.Stop(t.Context())) // the only seed, for good
	sent := 0
	flows := func() {
		push(sent)
		sent++
		eventually(t, "it flows", func() bool { return got.len() == sent })
	}
	flows()
	e.split(a)
	sees(t, a)
	sees(t, b, c)
	flows()
	eventually(t, "it is forgotten by whom it has no stream with", func() bool { return !remembers(c, "a") })
	require.True(t, remembers(b, "a"))
	flows()
	for _, i := range b.inboundAll() {
		require.NotEqual(t, "reconnecting", i.row().GetState())
	}
	e.heal()
	sees(t, a, b, c)
	sees(t, b, a, c)
	sees(t, c, a, b)
	flows()
	got.inOrder(t, sent)
}

// A connection stays open as long as a subscription or a call uses it, whatever gossip
// says of the node at its end.
func TestUsedConnectionsStay(t *testing.T) {
	t.Parallel()
	n := testNode("a", Config{})
	conn, done, err := n.peers.dial("127.0.0.1:1")
	require.NoError(t, err)
	same, again, err := n.peers.dial("127.0.0.1:1")
	require.NoError(t, err)
	require.Same(t, conn, same)
	done()
	done()
	n.peers.retain(nil)
	require.Len(t, n.peers.conns, 1, "one still uses it")
	again()
	n.peers.retain(map[string]bool{"127.0.0.1:1": true})
	require.Len(t, n.peers.conns, 1, "it is wanted")
	n.peers.retain(nil)
	require.Empty(t, n.peers.conns)
}

// Gossip that passes in one direction only ends no subscription either.
func TestHalfDeafGossip(t *testing.T) {
	t.Parallel()
	e := &ether{}
	a := e.carry(testNode("a", Config{}))
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	b := e.carry(testNode("b", Config{Join: join(a)}))
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	push(0)
	eventually(t, "it flows", func() bool { return got.len() == 1 })
	e.lose(func(from, _ string) bool { return from == a.GossipAddress() })
	eventually(t, "b takes a for dead", func() bool { return len(living(b)) == 0 })
	push(1)
	eventually(t, "it flows", func() bool { return got.len() == 2 })
	e.heal()
	sees(t, b, a)
	got.inOrder(t, 2)
}

// Nodes that have come to a seed that leaves before gossip has spread their names are
// told of each other by the seed itself.
func TestSeedLeavesAtOnce(t *testing.T) {
	t.Parallel()
	silent := func(n *Node) *Node {
		n.tuning.goodbye = 200 * time.Millisecond // nobody hears it
		n.tuning.gossip = func(m *memberlist.Config) { m.GossipInterval, m.ProbeInterval, m.PushPullInterval = 0, 0, 0 }
		return n
	}
	hub := silent(testNode("hub", Config{}))
	hub.tuning.young = time.Minute // the test may be slow
	require.NoError(t, hub.Start(t.Context(), nil))
	a := silent(testNode("a", Config{Join: join(hub)}))
	start(t, a)
	b := silent(testNode("b", Config{Join: join(hub)}))
	start(t, b)
	eventually(t, "the hub has met both", func() bool { return len(living(hub)) == 2 })
	require.False(t, living(a)["b"], "nobody has told the first of the second")
	require.NoError(t, hub.Stop(t.Context()))
	eventually(t, "the first knows the second", func() bool { return living(a)["b"] })
}

// T10: a process that was killed comes back under its name, on other ports, before
// gossip knows that it was dead: it is found at once, and nothing is said of a conflict.
func TestTrapT10RestartElsewhere(t *testing.T) {
	t.Parallel()
	var conflicts atomic.Int64
	hub := testNode("hub", Config{Logger: slog.New(counter{slog.DiscardHandler, "two nodes have one name", &conflicts})})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(hub, ints), sink)
	start(t, hub, sink)
	first := testNode("b", Config{Join: join(hub)})
	require.NoError(t, first.Start(t.Context(), nil))
	sees(t, hub, first)
	first.kill()
	again := testNode("b", Config{Join: join(hub)})
	source, push := pushed()
	Publish(again, ints, source)
	start(t, again, source)
	require.NotEqual(t, first.address, again.address)
	begin := time.Now()
	push(0)
	eventually(t, "it is found", func() bool { return got.len() == 1 })
	t.Logf("found after %v", time.Since(begin))
	eventually(t, "the process before is gone", func() bool { return hub.cluster.list.NumMembers() == 2 })
	require.Zero(t, conflicts.Load())
}

// counter counts what is logged with one message.
type counter struct {
	slog.Handler
	message string
	n       *atomic.Int64
}

func (c counter) Enabled(context.Context, slog.Level) bool { return true }
func (c counter) WithAttrs([]slog.Attr) slog.Handler       { return c }

func (c counter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.n.Add(1)
	}
	return nil
}

// Of two starts that gossip shows under one name, the later is the one to go to.
func TestLatestStartIsFound(t *testing.T) {
	t.Parallel()
	n := testNode("a", Config{})
	start(t, n)
	c := n.cluster
	for i := range 20 {
		name := string(rune('b' + i))
		for incarnation := uint64(1); incarnation <= 2; incarnation++ {
			x := testNode(name, Config{})
			x.incarnation, x.address = incarnation, net.JoinHostPort("127.0.0.1", string(rune('0'+incarnation)))
			c.mu.Lock()
			c.take(name+x.address, news{address: x.address, meta: x.digest(512)})
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.newest()
	require.Len(t, newest, 20)
	for name, m := range newest {
		require.EqualValues(t, 2, m.incarnation, name)
	}
}

// Two nodes that took one name while they could not see each other: when they meet,
// both are named, with their addresses, by themselves and by others.
func TestNamesThatConflict(t *testing.T) {
	t.Parallel()
	e := &ether{}
	hub := e.carry(testNode("hub", Config{}))
	start(t, hub)
	e.lose(func(string, string) bool { return true })
	one := e.carry(testNode("b", Config{Join: join(hub)}))
	start(t, one)
	two := e.carry(testNode("b", Config{Join: join(hub)}))
	start(t, two)
	e.heal()
	for _, n := range []*Node{hub, one, two} {
		eventually(t, "the conflict is said by "+n.Address(), func() bool {
			r, err := (&admin{n: n}).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
			require.NoError(t, err)
			said := map[string]string{}
			for _, i := range r.GetNodes() {
				if i.GetState() == sluicev1.NodeState_NODE_STATE_CONFLICT {
					said[i.GetGrpcAddress()] = i.GetError()
				}
			}
			return len(said) == 2 && said[one.Address()] == "another node of that name is at "+two.Address() &&
				said[two.Address()] == "another node of that name is at "+one.Address()
		})
	}
	require.NoError(t, two.Stop(t.Context()))
	eventually(t, "it is over", func() bool {
		r, err := (&admin{n: hub}).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		for _, i := range r.GetNodes() {
			if i.GetState() == sluicev1.NodeState_NODE_STATE_CONFLICT {
				return false
			}
		}
		return true
	})
}
