package node

import (
	"context"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// trio is a source at a, a gate at b and a sink at c, which flow.
type trio struct {
	a, b, c *Node
	push    func(...int)
	got     record
	source  *stage.Source[int]
	admins  []sluicev1.AdminServiceClient // of a, b and c
}

func startTrio(t *testing.T, c Config) *trio {
	t.Helper()
	x := &trio{a: testNode("a", c)}
	x.source, x.push = pushed()
	x.source.Name = "source"
	Publish(x.a, ints, x.source)
	start(t, x.a, x.source)
	c.Join = join(x.a)
	x.b = testNode("b", c)
	gate := stage.NewGate(stage.Map(double))
	gate.Name = "gate"
	stage.Connect(Outlet(x.b, ints), gate)
	Publish(x.b, doubled, gate)
	start(t, x.b, gate)
	x.c = testNode("c", c)
	sink := x.got.sink("sink")
	stage.Connect(Outlet(x.c, doubled), sink)
	start(t, x.c, sink)
	for _, n := range []*Node{x.a, x.b, x.c} {
		x.admins = append(x.admins, sluicev1.NewAdminServiceClient(dialRaw(t, n.Address()).conn))
	}
	x.push(1, 2, 3)
	eventually(t, "it flows", func() bool { return x.got.len() == 3 })
	for _, n := range []*Node{x.a, x.b, x.c} {
		eventually(t, "all know each other", func() bool {
			all, _ := n.cluster.view()
			return len(all) == 2
		})
	}
	return x
}

// Any node answers for all of them.
func TestAnyNodeAnswers(t *testing.T) {
	t.Parallel()
	x := startTrio(t, Config{Zone: "z", Version: "v1"})
	for i, admin := range x.admins {
		nodes, err := admin.ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		require.Empty(t, nodes.GetUnreachable())
		require.Len(t, nodes.GetNodes(), 3)
		for j, n := range nodes.GetNodes() {
			want := []*Node{x.a, x.b, x.c}[j]
			require.Equal(t, want.Name(), n.GetName())
			require.Equal(t, sluicev1.NodeState_NODE_STATE_ALIVE, n.GetState())
			require.Equal(t, want.Address(), n.GetGrpcAddress())
			require.Equal(t, want.GossipAddress(), n.GetGossipAddress())
			require.Equal(t, "z", n.GetZone())
			require.Equal(t, "v1", n.GetVersion())
			require.Equal(t, want.incarnation, n.GetIncarnation())
			require.EqualValues(t, 1, n.GetStages())
			require.EqualValues(t, []int{1, 1, 0}[j], n.GetOutlets())
			require.NotZero(t, n.GetUptime().AsDuration())
		}
		outlets, err := admin.ListOutlets(t.Context(), &sluicev1.ListOutletsRequest{})
		require.NoError(t, err)
		require.Empty(t, outlets.GetUnreachable())
		require.Len(t, outlets.GetOutlets(), 2)
		for _, o := range outlets.GetOutlets() {
			require.Equal(t, map[string]string{"numbers": "a", "doubled": "b"}[o.GetName()], o.GetNode())
			require.Equal(t, "int", o.GetEventType())
			require.Equal(t, "json", o.GetCodec())
			require.Equal(t, "demand", o.GetDispatcher())
			require.EqualValues(t, 1, o.GetSubscribers())
			require.False(t, o.GetEnded())
		}
		stages, err := admin.ListStages(t.Context(), &sluicev1.ListStagesRequest{})
		require.NoError(t, err)
		require.Empty(t, stages.GetUnreachable())
		require.Len(t, stages.GetStages(), 3)
		for _, s := range stages.GetStages() {
			require.Equal(t, map[string]string{"source": "a", "gate": "b", "sink": "c"}[s.GetName()], s.GetNode())
			require.Equal(t, s.GetName(), s.GetKind())
			require.Equal(t, "running", s.GetState())
		}
		// The one that is asked, and nobody else.
		own := &sluicev1.ListNodesRequest{Scope: sluicev1.Scope_SCOPE_NODE}
		nodes, err = admin.ListNodes(t.Context(), own)
		require.NoError(t, err)
		require.Len(t, nodes.GetNodes(), 1)
		require.Equal(t, []string{"a", "b", "c"}[i], nodes.GetNodes()[0].GetName())
	}
}

// The rows of both sides of a subscription pair by incarnation and session, and agree.
func TestRowsPair(t *testing.T) {
	t.Parallel()
	x := startTrio(t, Config{})
	for _, admin := range x.admins {
		type key struct{ incarnation, session uint64 }
		var pairs map[key][]*sluicev1.SubscriptionInfo
		agree := func() bool {
			reply, err := admin.ListSubscriptions(t.Context(), &sluicev1.ListSubscriptionsRequest{})
			require.NoError(t, err)
			pairs = map[key][]*sluicev1.SubscriptionInfo{}
			for _, s := range reply.GetSubscriptions() {
				k := key{s.GetIncarnation(), s.GetSession()}
				pairs[k] = append(pairs[k], s)
				if s.GetAcked() != 3 {
					return false // the last acknowledgement is on its way
				}
			}
			return true
		}
		eventually(t, "all is acknowledged", agree)
		require.Len(t, pairs, 2)
		for k, rows := range pairs {
			require.NotZero(t, k.incarnation)
			require.NotZero(t, k.session)
			require.Len(t, rows, 2, "two sides")
			p, c := rows[0], rows[1]
			if p.GetSide() == sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER {
				p, c = c, p
			}
			require.Equal(t, sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER, p.GetSide())
			require.Equal(t, sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER, c.GetSide())
			require.Equal(t, p.GetOutlet(), c.GetOutlet())
			require.Equal(t, p.GetProducerNode(), c.GetProducerNode())
			require.Equal(t, p.GetConsumerNode(), c.GetConsumerNode())
			require.Equal(t, p.GetConsumerStage(), c.GetConsumerStage())
			require.Equal(t, p.GetGranted(), c.GetGranted())
			require.EqualValues(t, 3, p.GetSent())
			require.EqualValues(t, 3, c.GetReceived())
			require.EqualValues(t, 1000, p.GetMaxDemand())
			require.Equal(t, "no-events", p.GetState())
			require.Equal(t, "no-events", c.GetState())
			require.Empty(t, c.GetReason())
		}
	}
}

// A node that is killed is listed: first as one that does not answer, by name, then as
// dead; never left out. One that answers too slowly is named as well, in time.
func TestKilledNodeIsListed(t *testing.T) {
	t.Parallel()
	x := startTrio(t, Config{})
	incarnation := x.c.incarnation
	x.c.kill()
	seen := map[sluicev1.NodeState]bool{}
	eventually(t, "it is dead", func() bool {
		reply, err := x.admins[0].ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		require.Len(t, reply.GetNodes(), 3, "it is never left out")
		n := reply.GetNodes()[2]
		require.Equal(t, "c", n.GetName())
		require.Equal(t, incarnation, n.GetIncarnation())
		require.NotEmpty(t, n.GetError())
		require.NotEmpty(t, n.GetGrpcAddress())
		if n.GetState() == sluicev1.NodeState_NODE_STATE_SUSPECT {
			require.Len(t, reply.GetUnreachable(), 1)
			require.Equal(t, "c", reply.GetUnreachable()[0].GetNode())
			require.NotEmpty(t, reply.GetUnreachable()[0].GetError())
			subs, err := x.admins[0].ListSubscriptions(t.Context(), &sluicev1.ListSubscriptionsRequest{})
			require.NoError(t, err)
			require.NotEmpty(t, subs.GetSubscriptions(), "the others answer")
		}
		seen[n.GetState()] = true
		return n.GetState() == sluicev1.NodeState_NODE_STATE_DEAD
	})
	require.True(t, seen[sluicev1.NodeState_NODE_STATE_SUSPECT], "it was seen as silent before it was called dead: %v", seen)
	// When it is back, it is there once.
	again := testNode("c", Config{Join: join(x.a)})
	start(t, again)
	eventually(t, "it is back", func() bool {
		reply, err := x.admins[0].ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		return len(reply.GetNodes()) == 3 && reply.GetNodes()[2].GetState() == sluicev1.NodeState_NODE_STATE_ALIVE
	})
	x.b.kill() // it would wait for its consumer, inside the window
	x.a.kill()
}

// A member that accepts calls and never answers is named before the caller's time is
// over.
func TestSilentNodeIsNamed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and that is all
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	a := testNode("a", Config{})
	start(t, a)
	mute := testNode("mute", Config{Join: join(a), Advertise: listener.Addr().String()})
	start(t, mute)
	admin := sluicev1.NewAdminServiceClient(dialRaw(t, a.Address()).conn)
	eventually(t, "it is a member", func() bool {
		all, _ := a.cluster.view()
		return len(all) == 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
	defer cancel()
	nodes, err := admin.ListNodes(ctx, &sluicev1.ListNodesRequest{})
	require.NoError(t, err, "the answer comes in time")
	require.Len(t, nodes.GetNodes(), 2)
	require.Equal(t, sluicev1.NodeState_NODE_STATE_SUSPECT, nodes.GetNodes()[1].GetState())
	require.Len(t, nodes.GetUnreachable(), 1)
	require.Equal(t, "no answer in time", nodes.GetUnreachable()[0].GetError())
}

// A tap shows an outlet of any node, as many events as are wanted, and takes none.
func TestTap(t *testing.T) {
	t.Parallel()
	x := startTrio(t, Config{})
	for i, admin := range x.admins {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		tap, err := admin.Tap(ctx, &sluicev1.TapRequest{Outlet: "doubled", Limit: 2})
		require.NoError(t, err)
		shown := make(chan *sluicev1.TapResponse, 10)
		ended := make(chan error, 1)
		go func() {
			for {
				r, err := tap.Recv()
				if err != nil {
					ended <- err
					return
				}
				shown <- r
			}
		}()
		before, pushes := x.got.len(), 0
		for len(shown) < 2 {
			x.push(pushes)
			pushes++
			time.Sleep(5 * time.Millisecond)
		}
		require.Equal(t, io.EOF, <-ended, "that was the limit")
		one, two := <-shown, <-shown
		require.Equal(t, "b", one.GetNode())
		require.Equal(t, "json", one.GetCodec())
		a, err := strconv.Atoi(string(one.GetEvent()))
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(a+2), string(two.GetEvent()), "node %d", i)
		eventually(t, "all of it arrives all the same", func() bool { return x.got.len() == before+pushes })
	}
	_, err := x.tapOnce(t, "nowhere")
	require.Equal(t, codes.NotFound, status.Code(err))
	require.ErrorContains(t, err, `no node offers an outlet "nowhere"`)
}

func (x *trio) tapOnce(t *testing.T, outlet string) (*sluicev1.TapResponse, error) {
	t.Helper()
	tap, err := x.admins[0].Tap(t.Context(), &sluicev1.TapRequest{Outlet: outlet})
	require.NoError(t, err)
	return tap.Recv()
}

// A tap that cannot reach who offers the outlet says whom.
func TestTapNamesWhoIsSilent(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	start(t, a)
	b, link := linked(t, "b", Config{Join: join(a)})
	source := endless()
	Publish(b, ints, source)
	through(t, b, link, source)
	eventually(t, "the outlet is known", func() bool {
		found, _ := a.cluster.find("numbers", "")
		return len(found) == 1
	})
	link.Refuse()
	tap, err := sluicev1.NewAdminServiceClient(dialRaw(t, a.Address()).conn).Tap(t.Context(), &sluicev1.TapRequest{Outlet: "numbers"})
	require.NoError(t, err)
	r, err := tap.Recv()
	require.NoError(t, err)
	require.Len(t, r.GetUnreachable(), 1)
	require.Equal(t, "b", r.GetUnreachable()[0].GetNode())
	require.NotEmpty(t, r.GetUnreachable()[0].GetError())
	_, err = tap.Recv()
	require.Equal(t, io.EOF, err)
}

// A tap that is not read slows nobody, and is told what it has missed. A tap is over
// when its outlet has ended.
func TestSlowTap(t *testing.T) {
	t.Parallel()
	const count = 300_000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)
	admin := sluicev1.NewAdminServiceClient(dialRaw(t, a.Address()).conn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	tap, err := admin.Tap(ctx, &sluicev1.TapRequest{Outlet: "numbers"})
	require.NoError(t, err)
	_, err = tap.Header() // it is sent when the tap stands
	require.NoError(t, err)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	begin := time.Now()
	require.NoError(t, start(t, b, sink).wait())
	t.Logf("%.0f events/s beside a tap that is not read", count/time.Since(begin).Seconds())
	got.inOrder(t, count)
	shown, missed := 0, 0
	for {
		r, err := tap.Recv()
		if err != nil {
			require.True(t, err == io.EOF || status.Code(err) == codes.Unavailable, "%v", err)
			break
		}
		shown++
		missed += int(r.GetMissed())
	}
	require.NotZero(t, missed)
	require.LessOrEqual(t, shown+missed, count)
	require.Less(t, shown, count)
	require.NoError(t, runA.wait())
}

// Subscriptions within a process are listed too.
func TestLocalRows(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, push := pushed()
	var got record
	sink := got.sink("sink")
	stage.Connect(source, sink)
	start(t, a, source, sink)
	push(1)
	eventually(t, "it flows", func() bool { return got.len() == 1 })
	reply, err := (&admin{n: a}).ListSubscriptions(t.Context(), &sluicev1.ListSubscriptionsRequest{})
	require.NoError(t, err)
	require.Len(t, reply.GetSubscriptions(), 1)
	require.Equal(t, sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_LOCAL, reply.GetSubscriptions()[0].GetSide())
	require.Equal(t, "sink", reply.GetSubscriptions()[0].GetConsumerStage())
}
