package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A node that gossip calls dead is asked all the same, at either end of an open stream,
// for as long as that is open. When it does not answer, it is named, soon.
func TestDeadByGossipIsAsked(t *testing.T) {
	t.Parallel()
	e := &ether{}
	a, link := linked(t, "a", Config{})
	e.carry(a)
	a.tuning.forget = 10 * time.Millisecond
	source, push := pushed()
	source.Name = "source"
	Publish(a, ints, source)
	through(t, a, link, source)
	b := e.carry(testNode("b", Config{Join: join(a)}))
	b.tuning.forget = 10 * time.Millisecond
	var got record
	sink := got.sink("sink")
	other, _ := pushed()
	stage.Connect(other, sink, stage.Temporary)
	start(t, b, sink, other)
	sub, err := stage.Subscribe(t.Context(), Outlet(b, ints), sink, stage.Temporary)
	require.NoError(t, err)
	push(0)
	eventually(t, "it flows", func() bool { return got.len() == 1 })
	e.split(a)
	sees(t, a)
	sees(t, b)
	time.Sleep(20 * time.Millisecond)
	for _, n := range []*Node{a, b} {
		n.cluster.prune() // it would be forgotten now
		stages, err := (&admin{n: n}).ListStages(t.Context(), &sluicev1.ListStagesRequest{})
		require.NoError(t, err)
		require.Empty(t, stages.GetUnreachable())
		names := map[string]bool{}
		for _, s := range stages.GetStages() {
			names[s.GetName()] = true
		}
		require.True(t, names["source"] && names["sink"], "%v", names)
		nodes, err := (&admin{n: n}).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
		require.NoError(t, err)
		require.Len(t, nodes.GetNodes(), 2)
		for _, i := range nodes.GetNodes() {
			require.Equal(t, sluicev1.NodeState_NODE_STATE_ALIVE, i.GetState())
			if i.GetName() == n.Name() {
				require.Empty(t, i.GetError())
			} else {
				require.Contains(t, i.GetError(), "it answers, and gossip has not heard of it since")
			}
		}
	}

	link.Stall(true, true)
	begin := time.Now()
	outlets, err := (&admin{n: b}).ListOutlets(t.Context(), &sluicev1.ListOutletsRequest{})
	require.NoError(t, err)
	require.Less(t, time.Since(begin), answerTime)
	require.Len(t, outlets.GetUnreachable(), 1)
	require.Equal(t, "a", outlets.GetUnreachable()[0].GetNode())
	require.Regexp(t, "^gossip has not heard of it since .*: no answer in time$", outlets.GetUnreachable()[0].GetError())
	nodes, err := (&admin{n: b}).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
	require.NoError(t, err)
	require.Empty(t, nodes.GetUnreachable(), "it is in the list")
	require.Equal(t, sluicev1.NodeState_NODE_STATE_DEAD, nodes.GetNodes()[0].GetState())

	link.Heal()
	require.True(t, sub.Cancel())
	<-sub.Done()
	eventually(t, "nothing keeps it in mind", func() bool { return !remembers(b, "a") && !remembers(a, "b") })
	stages, err := (&admin{n: b}).ListStages(t.Context(), &sluicev1.ListStagesRequest{})
	require.NoError(t, err)
	require.Empty(t, stages.GetUnreachable())
	require.Len(t, stages.GetStages(), 2)
}
