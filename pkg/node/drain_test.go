package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A node that is about to leave says so on every stream, once, with how long that may
// take, and again on a stream that is opened meanwhile. The session goes on. It takes no
// new one.
func TestDrainingIsSaid(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	a.tuning.beat = time.Hour // no sign of life wakes it up
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(nil)
	require.NotNil(t, c.any().GetOpened())
	c.ask(10)
	push(0)
	require.EqualValues(t, 1, c.any().GetBatch().GetFirst())
	require.NotEqual(t, "draining", a.published["numbers"].rows()[0].GetState())

	a.drain()
	said := func() {
		t.Helper()
		d := c.any().GetDraining()
		require.NotNil(t, d, "it comes before anything else")
		require.Positive(t, d.GetDeadline().AsDuration())
		require.LessOrEqual(t, d.GetDeadline().AsDuration(), stage.DefaultDrainTimeout)
	}
	said()
	push(1)
	require.EqualValues(t, 2, c.any().GetBatch().GetFirst(), "the session goes on, and it is said once")
	c.dial()
	c.open(func(o *sluicev1.Open) { o.Attempt, o.Known, o.Granted, o.Received = 2, true, 10, 1 })
	require.NotNil(t, c.any().GetOpened())
	said()
	require.EqualValues(t, 2, c.any().GetBatch().GetFirst())

	other := dialRaw(t, a.Address())
	other.stage = "other"
	other.open(nil)
	other.refused(wire.RuleDraining)

	admin := sluicev1.NewAdminServiceClient(c.conn)
	nodes, err := admin.ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
	require.NoError(t, err)
	require.Equal(t, sluicev1.NodeState_NODE_STATE_DRAINING, nodes.GetNodes()[0].GetState())
	subs, err := admin.ListSubscriptions(t.Context(), &sluicev1.ListSubscriptionsRequest{})
	require.NoError(t, err)
	require.Len(t, subs.GetSubscriptions(), 1)
	require.Equal(t, "draining", subs.GetSubscriptions()[0].GetState())
}

// A consumer shows that its producer is about to leave, also after its connection broke.
func TestDrainingIsHeard(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{})
	source, push := pushed()
	Publish(a, ints, source)
	through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	state := func() string { return b.inboundAll()[0].row().GetState() }
	push(0)
	eventually(t, "it flows", func() bool { return got.len() == 1 })
	eventually(t, "all is acknowledged", func() bool { return state() == "no-events" })
	a.drain()
	eventually(t, "it is heard", func() bool { return state() == "draining" })
	link.Cut()
	eventually(t, "it is heard again", func() bool {
		return b.inboundAll()[0].(*inflow[int]).attempts() > 1 && state() == "draining"
	})
	push(1)
	eventually(t, "it flows on", func() bool { return got.len() == 2 })
}
