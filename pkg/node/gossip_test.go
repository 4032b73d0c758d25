package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// T1: metadata beyond 512 bytes panics the process. What a node gossips does not grow
// with what it offers, and the longest names fit.
func TestDigestFitsWhateverIsOffered(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 128)
	host := strings.Repeat("h", 253)
	a := testNode(long, Config{Zone: strings.Repeat("z", 64), Cluster: strings.Repeat("c", 128), Advertise: host + ":65535"})
	source := endless()
	const outlets = 10_000
	for i := range outlets {
		Publish(a, wire.JSON[int](fmt.Sprintf("%s-%05d", strings.Repeat("o", 200), i)), source)
	}
	a.draining.Store(true)
	require.NoError(t, a.config.check())
	a.address = a.config.Advertise
	meta := a.digest(memberlist.MetaMaxSize)
	require.NotNil(t, meta)
	d, ok := readDigest(meta)
	require.True(t, ok)
	require.Equal(t, long, d.GetNode())
	require.Equal(t, a.config.Zone, d.GetZone(), "nothing has to be left out")

	// Where it does not fit, less is said, and then nothing; never too much.
	for limit := range memberlist.MetaMaxSize {
		require.LessOrEqual(t, len(a.digest(limit)), limit)
	}
	require.Nil(t, a.digest(10))
}

// The catalog of 10,000 outlets with long names is more than a frame takes, and
// arrives all the same.
func TestLargeCatalogArrives(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	const outlets = 10_000
	name := func(i int) string { return fmt.Sprintf("%s-%05d", strings.Repeat("o", 240), i) }
	for i := range outlets {
		Publish(a, wire.New[int](name(i), longCodec{ints.Codec()}), source)
	}
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	start(t, b)
	eventually(t, "the catalog arrives", func() bool {
		found, _ := b.cluster.find(name(outlets-1), "")
		return len(found) == 1
	})
}

type longCodec struct{ wire.Codec[int] }

func (longCodec) EventType() string {
	return strings.Repeat("example.com/some/long/path/", 20) + "Event"
}

// T2: memberlist's callbacks run under its lock. They copy and return: also while the
// view is held, and while all that memberlist can be asked is asked.
func TestCallbacksOnlyEnqueue(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	start(t, a)
	c := a.cluster
	e := &events{c}
	const members, each = 50, 200
	flood := func() {
		var wg sync.WaitGroup
		for i := range members {
			wg.Go(func() {
				name := "m" + strconv.Itoa(i)
				x := testNode(name, Config{})
				x.address = "127.0.0.1:1"
				m := &memberlist.Node{Name: name, Addr: net.IPv4(127, 0, 0, 1), Port: 1}
				for v := range uint64(each) {
					x.version = v
					m.Meta = x.digest(memberlist.MetaMaxSize)
					switch v % 3 {
					case 0:
						e.NotifyJoin(m)
					case 1:
						e.NotifyUpdate(m)
					case 2:
						e.NotifyLeave(m)
					}
					clear(m.Meta) // memberlist uses it again
				}
			})
		}
		wg.Wait()
	}
	// The view is held for all that time: a callback that wants it does not return.
	done := make(chan struct{})
	c.mu.Lock()
	go func() {
		defer close(done)
		flood()
	}()
	select {
	case <-done:
		c.mu.Unlock()
	case <-time.After(patience):
		c.mu.Unlock()
		require.Fail(t, "a callback waits for the view")
	}
	// And everything at once.
	stop := make(chan struct{})
	var asks sync.WaitGroup
	asks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c.list.Members()
			c.list.NumMembers()
			c.list.LocalNode()
			c.list.GetHealthScore()
			c.announce() // and so reconcile calls UpdateNode: two at once it does not bear
			c.view()
			c.find("numbers", "x/y")
		}
	})
	flood()
	close(stop)
	asks.Wait()
	eventually(t, "all has been taken in", func() bool {
		all, _ := c.view()
		c.newsMu.Lock()
		defer c.newsMu.Unlock()
		return len(all) == members && len(c.news) == 0
	})
}

// What a flood leaves behind is one piece of news for each member.
func TestNewsIsCompacted(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	c := &cluster{n: a, wake: make(chan struct{}, 1)}
	e := &events{c}
	for range 100_000 {
		e.NotifyUpdate(&memberlist.Node{Name: "b"})
	}
	require.Len(t, c.news, 1)
}

// T5: a host name, or none, would make memberlist bind every interface.
func TestGossipBindsWhatItIsTold(t *testing.T) {
	t.Parallel()
	loopback := netip.MustParseAddr("127.0.0.1")
	for _, gossip := range []string{"localhost:7946", "db.internal:7946", ":7946", "eth0:1", "1.2.3:1", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"} {
		c := Config{Listen: "127.0.0.1:0", Gossip: gossip}
		_, err := c.gossipBind(loopback)
		require.ErrorIs(t, err, ErrConfig, gossip)
		err = testNode("a", Config{Gossip: gossip}).Start(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig, gossip)
	}
	for gossip, want := range map[string]string{
		"127.0.0.1:7946": "127.0.0.1:7946", "[::1]:7946": "[::1]:7946", "0.0.0.0:1": "0.0.0.0:1",
	} {
		got, err := (&Config{Gossip: gossip}).gossipBind(loopback)
		require.NoError(t, err)
		require.Equal(t, want, got.String())
	}
	// Without one, it is where the server listens, all interfaces only when that was said.
	for listen, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1:0", "localhost:0": "127.0.0.1:0", ":0": "0.0.0.0:0", "0.0.0.0:0": "0.0.0.0:0",
	} {
		l, err := net.Listen("tcp4", listen)
		require.NoError(t, err)
		got, err := (&Config{Listen: listen}).gossipBind(l.Addr().(*net.TCPAddr).AddrPort().Addr())
		require.NoError(t, l.Close())
		require.NoError(t, err)
		require.Equal(t, want, got.String(), listen)
	}
	// And so it is bound.
	a := testNode("a", Config{Listen: "localhost:0"})
	start(t, a)
	require.True(t, strings.HasPrefix(a.GossipAddress(), "127.0.0.1:"), a.GossipAddress())
}

// T6: memberlist advertises IPs only, and fails on a host name.
func TestGossipAdvertiseIsResolved(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{GossipAdvertise: "localhost:4711"})
	start(t, a)
	require.Equal(t, "127.0.0.1:4711", a.GossipAddress(), "the port stands, also where gossip took a free one")
	b := testNode("b", Config{GossipAdvertise: "localhost:0"})
	start(t, b)
	host, port, err := net.SplitHostPort(b.GossipAddress())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.NotEqual(t, "0", port, "port 0 stands for the one that it got")
	other := testNode("other", Config{Join: join(b)})
	start(t, other)
	require.Equal(t, 2, other.cluster.list.NumMembers(), "it is reached there")
	c := testNode("c", Config{GossipAdvertise: "no.such.host.invalid:1"})
	err = c.Start(t.Context(), nil)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "no.such.host.invalid")
}

// T7: a port of one's own is what is advertised, and not 7946.
func TestGossipPortIsAdvertised(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	a := testNode("a", Config{Gossip: address})
	start(t, a)
	require.Equal(t, address, a.GossipAddress())
	free := testNode("b", Config{Join: join(a)})
	start(t, free)
	require.NotContains(t, free.GossipAddress(), ":7946")
	require.NotContains(t, free.GossipAddress(), ":0")
	eventually(t, "the other one is told that port", func() bool {
		all, _ := a.cluster.view()
		return len(all) == 1 && all[0].gossip == free.GossipAddress()
	})
}

// T9: memberlist lets two nodes of one name join and says nothing. Here the second is
// refused, the first lives on, and a restart after a crash is no second.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	hub := testNode("hub", Config{})
	start(t, hub)
	first := testNode("b", Config{Join: join(hub)})
	source, push := pushed()
	Publish(first, ints, source)
	start(t, first, source)
	sees := func(n *Node, incarnation uint64) bool {
		all, _ := n.cluster.view()
		for _, m := range all {
			if m.node == "b" && m.incarnation == incarnation && !m.gone {
				return true
			}
		}
		return false
	}
	eventually(t, "the hub knows the first", func() bool { return sees(hub, first.incarnation) })

	second := testNode("b", Config{Join: join(hub)})
	err := second.Start(t.Context(), nil)
	require.ErrorIs(t, err, ErrNameTaken)
	require.ErrorContains(t, err, first.Address(), "it is said who has it")
	require.NoError(t, second.Stop(t.Context()))

	// The first lives on.
	var got record
	sink := got.sink("sink")
	other := testNode("other", Config{Join: join(hub)})
	other.tuning.farewell = 300 * time.Millisecond // to the first, which is killed
	stage.Connect(Outlet(other, ints), sink)
	start(t, other, sink)
	push(0)
	eventually(t, "it serves", func() bool { return got.len() == 1 })

	// Its process ends, and gossip does not know that yet.
	first.kill()
	again := testNode("b", Config{Join: join(hub)})
	begin := time.Now()
	start(t, again)
	t.Logf("restarted after %v", time.Since(begin))
	eventually(t, "it is found", func() bool { return sees(hub, again.incarnation) })
	eventually(t, "there is no conflict for ever", func() bool {
		all, _ := hub.cluster.view()
		for _, m := range all {
			if m.rival != "" {
				return false
			}
		}
		return true
	})
}

// T17: leaving is said before gossip is shut down, once, and seen as leaving.
func TestLeaving(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	start(t, a)
	b := testNode("b", Config{Join: join(a)})
	require.NoError(t, b.Start(t.Context(), nil))
	state := func() sluicev1.NodeState {
		r, err := (&admin{n: a}).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		for _, n := range r.GetNodes() {
			if n.GetName() == "b" {
				return n.GetState()
			}
		}
		return sluicev1.NodeState_NODE_STATE_UNSPECIFIED
	}
	eventually(t, "it is there", func() bool { return state() == sluicev1.NodeState_NODE_STATE_ALIVE })
	begin := time.Now()
	require.NoError(t, b.Stop(t.Context()))
	require.Less(t, time.Since(begin), 5*time.Second)
	require.NoError(t, b.Stop(t.Context()), "again")
	eventually(t, "it has left", func() bool { return state() != sluicev1.NodeState_NODE_STATE_ALIVE })
	eventually(t, "and not died", func() bool { return state() == sluicev1.NodeState_NODE_STATE_LEFT })
}

func TestStopAtAnyTime(t *testing.T) {
	t.Parallel()
	never := testNode("never", Config{})
	require.NoError(t, never.Stop(t.Context()))
	require.NoError(t, never.Stop(t.Context()))
	require.ErrorIs(t, never.Start(t.Context(), nil), stage.ErrAlreadyRun)

	bad := New(Config{})
	require.ErrorIs(t, bad.Start(t.Context(), nil), ErrConfig)
	require.NoError(t, bad.Stop(t.Context()))

	a := testNode("a", Config{})
	require.NoError(t, a.Start(t.Context(), nil))
	require.ErrorIs(t, a.Start(t.Context(), nil), stage.ErrAlreadyRun)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := a.Stop(t.Context()); err != nil {
				t.Errorf("Stop: %v", err)
			}
			if a.peers.conns != nil {
				t.Error("Stop returned while the node was stopping")
			}
		})
	}
	wg.Wait()
}

// Seeds that do not answer keep neither Start nor Stop waiting for long.
func TestSilentSeeds(t *testing.T) {
	t.Parallel()
	hub := testNode("hub", Config{})
	start(t, hub)
	seeds := join(hub)
	for range 5 {
		l, err := faultnet.Listen()
		require.NoError(t, err)
		t.Cleanup(l.Close)
		l.To(hub.GossipAddress())
		l.Stall(true, true)
		seeds = append(seeds, l.Addr())
	}
	a := testNode("a", Config{Join: seeds})
	begin := time.Now()
	require.NoError(t, a.Start(t.Context(), nil))
	require.Less(t, time.Since(begin), 2*joinTimeout)
	require.Equal(t, 2, a.cluster.list.NumMembers(), "the one that answers is joined")
	begin = time.Now()
	require.NoError(t, a.Stop(t.Context()))
	require.Less(t, time.Since(begin), 3*joinTimeout)
}

// A node that comes later is found through a seed that was not there at the start.
func TestSeedComesLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	b := testNode("b", Config{Join: []string{address}})
	begin := time.Now()
	start(t, b)
	require.Less(t, time.Since(begin), 2*joinTimeout)
	a := testNode("a", Config{Gossip: address})
	start(t, a)
	eventually(t, "they meet", func() bool {
		all, _ := b.cluster.view()
		return len(all) == 1
	})
}

// T11: addresses are given anew, and lead to nodes of another product or cluster. Two
// clusters that share an address do not merge.
func TestClustersDoNotMerge(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{Cluster: "one"})
	start(t, a)
	b := testNode("b", Config{Cluster: "two", Join: join(a)})
	start(t, b)
	require.Equal(t, 1, a.cluster.list.NumMembers())
	require.Equal(t, 1, b.cluster.list.NumMembers())
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"Name is empty":         {},
		"Name has 129 bytes":    {Name: strings.Repeat("x", 129)},
		"Zone has 65 bytes":     {Name: "a", Zone: strings.Repeat("x", 65)},
		"Cluster has 129":       {Name: "a", Cluster: strings.Repeat("x", 129)},
		"Advertise has":         {Name: "a", Advertise: strings.Repeat("x", 400) + ":1"},
		"cannot be printed":     {Name: "a\xff"},
		"Zone \"a\\nb\"":        {Name: "a", Zone: "a\nb"},
		"Cluster is empty":      {Name: "a", Join: []string{"b:1"}},
		"MaxUnacked is -1":      {Name: "a", MaxUnacked: -1},
		`Advertise "nowhere"`:   {Name: "a", Advertise: "nowhere"},
		"MaxUnackedBytes is -1": {Name: "a", MaxUnackedBytes: -1},
	} {
		err := New(c).Start(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig, name)
		require.ErrorContains(t, err, name)
	}
	n := testNode("a", Config{})
	Publish(n, ints, endless())
	Publish(n, ints, endless())
	require.ErrorIs(t, n.Start(t.Context(), nil), ErrDuplicateOutlet)
	n = testNode("a", Config{})
	Publish(n, wire.JSON[int]("no\nname"), endless())
	require.ErrorIs(t, n.Start(t.Context(), nil), wire.RuleBadName)
	n = testNode("a", Config{})
	Outlet(n, ints)
	Outlet(n, wire.JSON[string]("numbers"))
	require.ErrorContains(t, n.Start(context.Background(), nil), "two types")
}
