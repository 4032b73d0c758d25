package main

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// fakeNode answers with what its fields hold.
type fakeNode struct {
	sluicev1.UnimplementedAdminServiceServer

	nodes   *sluicev1.ListNodesResponse
	outlets *sluicev1.ListOutletsResponse
	stages  *sluicev1.ListStagesResponse
	subs    *sluicev1.ListSubscriptionsResponse
	tap     func(*sluicev1.TapRequest, grpc.ServerStreamingServer[sluicev1.TapResponse]) error
	err     error

	scope atomic.Int32 // of the last question
}

func (n *fakeNode) ListNodes(_ context.Context, r *sluicev1.ListNodesRequest) (*sluicev1.ListNodesResponse, error) {
	n.scope.Store(int32(r.GetScope()))
	return n.nodes, n.err
}

func (n *fakeNode) ListOutlets(_ context.Context, r *sluicev1.ListOutletsRequest) (*sluicev1.ListOutletsResponse, error) {
	n.scope.Store(int32(r.GetScope()))
	return n.outlets, n.err
}

func (n *fakeNode) ListStages(_ context.Context, r *sluicev1.ListStagesRequest) (*sluicev1.ListStagesResponse, error) {
	n.scope.Store(int32(r.GetScope()))
	return n.stages, n.err
}

func (n *fakeNode) ListSubscriptions(_ context.Context, r *sluicev1.ListSubscriptionsRequest) (*sluicev1.ListSubscriptionsResponse, error) {
	n.scope.Store(int32(r.GetScope()))
	return n.subs, n.err
}

func (n *fakeNode) Tap(r *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
	n.scope.Store(int32(r.GetScope()))
	return n.tap(r, s)
}

// serve runs the node on loopback until the test ends, and returns its address.
func (n *fakeNode) serve(t *testing.T) string {
	t.Helper()
	l := listen(t)
	s := grpc.NewServer()
	sluicev1.RegisterAdminServiceServer(s, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// result is what a call of sluicectl left behind.
type result struct {
	code           int
	stdout, stderr string
}

func noEnv(string) string { return "" }

// sluicectl calls the program as a shell would.
func sluicectl(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr, noEnv)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// cluster is a node whose cluster shows everything once: what is sorted wrongly,
// what is unknown, what is unbounded, and a node that does not answer.
func cluster() *fakeNode {
	ago := func(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
	missing := []*sluicev1.Unreachable{
		{Node: "d", Address: "10.0.3.14:7301", Error: "connection refused"},
	}
	const (
		unbounded = 1<<63 - 1
		producer  = sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER
		consumer  = sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER
		local     = sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_LOCAL
	)
	partition := func(n int32) *int32 { return &n }
	return &fakeNode{
		nodes: &sluicev1.ListNodesResponse{
			Nodes: []*sluicev1.NodeInfo{
				{Name: "c", State: sluicev1.NodeState_NODE_STATE_DRAINING, GrpcAddress: "10.0.3.13:7301", GossipAddress: "10.0.3.13:7946", Zone: "eu-1b", Incarnation: 1764518400000000003, Version: "v0.3.0", Stages: 1, Outlets: 0, Uptime: ago(51*time.Hour + 12*time.Minute)},
				{Name: "a", State: sluicev1.NodeState_NODE_STATE_ALIVE, GrpcAddress: "10.0.3.11:7301", GossipAddress: "10.0.3.11:7946", Zone: "eu-1a", Incarnation: 1764518400000000001, Version: "v0.4.0", Stages: 12, Outlets: 3, Uptime: ago(192500 * time.Millisecond)},
				{Name: "b", State: sluicev1.NodeState_NODE_STATE_ALIVE, GrpcAddress: "10.0.3.12:7301", GossipAddress: "10.0.3.12:7946", Incarnation: 1764518400000000002, Version: "v0.4.0", Stages: 2, Outlets: 1, Uptime: ago(5*time.Hour + 8*time.Minute)},
				{Name: "d", State: sluicev1.NodeState_NODE_STATE_SUSPECT, GrpcAddress: "10.0.3.14:7301", GossipAddress: "10.0.3.14:7946", Zone: "eu-1b", Incarnation: 1764518400000000004, Error: "connection refused"},
				{Name: "e", State: sluicev1.NodeState_NODE_STATE_LEFT, GrpcAddress: "10.0.3.15:7301", GossipAddress: "10.0.3.15:7946", Incarnation: 1764518400000000005, Version: "v0.2.0"},
			},
			Unreachable: missing,
		},
		outlets: &sluicev1.ListOutletsResponse{
			Outlets: []*sluicev1.OutletInfo{
				{Name: "orders", Node: "b", EventType: "acme.v1.Order", Codec: "proto", Dispatcher: "partition", Partitions: 4, Subscribers: 4},
				{Name: "numbers", Node: "b", EventType: "int", Codec: "json", Dispatcher: "demand", Subscribers: 1, Ended: true},
				{Name: "numbers", Node: "a", EventType: "int", Codec: "json", Dispatcher: "demand", Subscribers: 12},
			},
			Unreachable: missing,
		},
		stages: &sluicev1.ListStagesResponse{
			Stages: []*sluicev1.StageInfo{
				{Name: "printer", Node: "c", Kind: "sink", State: "running", EventsIn: 91827, Buffered: 250},
				{Name: "doubler", Node: "b", Kind: "gate", State: "failed", EventsIn: 92077, EventsOut: 92077, Buffered: 8912, UnmetDemand: 612, Discarded: map[string]int64{"too large": 2, "overflow": 15}, Error: "stage doubler: handler:\npanic: divide by zero"},
				{Name: "counter", Node: "a", Kind: "source", State: "running", EventsOut: 92689, UnmetDemand: unbounded},
			},
			Unreachable: missing,
		},
		subs: &sluicev1.ListSubscriptionsResponse{
			Subscriptions: []*sluicev1.SubscriptionInfo{
				{Outlet: "orders", ProducerNode: "b", ConsumerNode: "a", ConsumerStage: "enrich", Partition: partition(10), Side: producer, State: "flowing", MaxDemand: unbounded, Granted: unbounded, Sent: 5000, Acked: 4100, Age: ago(800 * time.Millisecond)},
				{Outlet: "orders", ProducerNode: "b", ConsumerNode: "a", ConsumerStage: "enrich", Partition: partition(10), Side: consumer, State: "in-flight", MaxDemand: unbounded, Granted: unbounded, Received: 4990, Acked: 4200, Age: ago(42 * time.Second)},
				{Outlet: "orders", ProducerNode: "b", ConsumerNode: "d", ConsumerStage: "enrich", Partition: partition(2), Side: producer, State: "reconnecting", MaxDemand: 1000, MinDemand: 750, Granted: 4000, Sent: 3900, Acked: 3750, Age: ago(12 * time.Second)},
				{Outlet: "numbers", ProducerNode: "a", ConsumerNode: "b", ConsumerStage: "doubler", Side: consumer, State: "in-flight", MaxDemand: 1000, MinDemand: 750, Granted: 93000, Received: 92327, Acked: 92077, Age: ago(192 * time.Second)},
				{Outlet: "numbers", ProducerNode: "a", ConsumerNode: "b", ConsumerStage: "doubler", Side: producer, State: "no-events", MaxDemand: 1000, MinDemand: 750, Granted: 93000, Sent: 92689, Acked: 92000, Age: ago(3 * time.Second)},
				{Outlet: "doubled", ProducerNode: "b", ConsumerNode: "b", ConsumerStage: "audit", Side: local, State: "no-demand", MaxDemand: 10, MinDemand: 7, Granted: 10, Sent: 10, Received: 10, Acked: 4, Age: ago(26 * time.Hour)},
				{Outlet: "doubled", ProducerNode: "b", ConsumerNode: "c", ConsumerStage: "printer", Side: consumer, State: "ended", MaxDemand: 1000, MinDemand: 750, Granted: 2000, Received: 1750, Acked: 1750, Age: ago(11 * time.Minute), Reason: "lost"},
				{Outlet: "prices", ConsumerNode: "c", ConsumerStage: "ticker", Side: consumer, State: "waiting", MaxDemand: 1000, MinDemand: 750, Age: ago(90 * time.Minute)},
			},
			Unreachable: missing,
		},
		tap: events(
			&sluicev1.TapResponse{Node: "a", Codec: "json", Event: []byte(`{"id":"o-991","amount":12.5}`)},
			&sluicev1.TapResponse{Node: "a", Codec: "json", Event: []byte("{\n  \"id\": \"o-992\"\n}"), Missed: 3},
			&sluicev1.TapResponse{Node: "b", Codec: "text", Event: []byte("grüße <b>")},
			&sluicev1.TapResponse{Node: "b", Codec: "text", Event: []byte("two\nlines \x1b[31m")},
			&sluicev1.TapResponse{Node: "b", Codec: "bytes", Event: []byte{0xff, 0x00, 'x'}},
			&sluicev1.TapResponse{Node: "b", Codec: "proto", Event: []byte("\n\x05o-993"), Missed: 1204},
			&sluicev1.TapResponse{Node: "b", Codec: "text"},
		),
	}
}

// events is a tap that shows these and ends.
func events(all ...*sluicev1.TapResponse) func(*sluicev1.TapRequest, grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
	return func(r *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		for i, e := range all {
			if r.GetLimit() > 0 && int64(i) == r.GetLimit() {
				return nil
			}
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return nil
	}
}
