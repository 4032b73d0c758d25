package node

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// admin answers operators. Asked about the cluster, it asks the other nodes in turn
// about themselves, and names those that did not answer.
type admin struct {
	sluicev1.UnimplementedAdminServiceServer
	n *Node
}

func (a *admin) ListNodes(ctx context.Context, q *sluicev1.ListNodesRequest) (*sluicev1.ListNodesResponse, error) {
	said, silent := ask(ctx, a, q.GetScope(), func(ctx context.Context, c sluicev1.AdminServiceClient) ([]*sluicev1.NodeInfo, error) {
		r, err := c.ListNodes(ctx, &sluicev1.ListNodesRequest{Scope: sluicev1.Scope_SCOPE_NODE})
		return r.GetNodes(), err
	})
	// The dead are in the list, as what they are.
	living := slices.DeleteFunc(slices.Clone(silent), func(s silence) bool { return s.gone })
	reply := &sluicev1.ListNodesResponse{Nodes: append([]*sluicev1.NodeInfo{a.self()}, said...), Unreachable: unreachable(living)}
	if q.GetScope() == sluicev1.Scope_SCOPE_NODE {
		return reply, nil
	}
	members, _ := a.n.cluster.view()
	for _, m := range members {
		answer := slices.IndexFunc(said, func(i *sluicev1.NodeInfo) bool { return i.GetName() == m.node && i.GetIncarnation() == m.incarnation })
		switch {
		case answer < 0:
			info := m.info()
			for _, s := range silent {
				if s.name == m.name && status.Code(s.err) == codes.PermissionDenied {
					info.State, info.Error = sluicev1.NodeState_NODE_STATE_ALIVE, status.Convert(s.err).Message()
				}
			}
			reply.Nodes = append(reply.Nodes, info)
		case m.gone:
			said[answer].Error = "it answers, and " + m.unheard()
		default:
			m.mark(said[answer])
		}
	}
	sort.Slice(reply.Nodes, func(i, j int) bool { return reply.Nodes[i].GetName() < reply.Nodes[j].GetName() })
	return reply, nil
}

// self is what the node says about itself.
func (a *admin) self() *sluicev1.NodeInfo {
	n := a.n
	state := sluicev1.NodeState_NODE_STATE_ALIVE
	if n.draining.Load() {
		state = sluicev1.NodeState_NODE_STATE_DRAINING
	}
	i := &sluicev1.NodeInfo{
		Name: n.config.Name, State: state, GrpcAddress: n.address, GossipAddress: n.cluster.gossip,
		Zone: n.config.Zone, Incarnation: n.incarnation, Version: n.config.Version,
		Refused: n.denials.all(),
		Stages:  int32(len(n.stages)), Outlets: int32(len(n.publications())), Uptime: durationpb.New(time.Since(n.started)),
	}
	n.cluster.clashes().mark(i)
	return i
}

// info is what gossip says about a member that did not speak for itself.
func (m *member) info() *sluicev1.NodeInfo {
	i := &sluicev1.NodeInfo{
		Name: m.node, GrpcAddress: m.address, GossipAddress: m.gossip, Zone: m.zone, Incarnation: m.incarnation,
		State: sluicev1.NodeState_NODE_STATE_SUSPECT, Error: "it is a member and does not answer",
	}
	switch {
	case m.gone && m.draining:
		i.State, i.Error = sluicev1.NodeState_NODE_STATE_LEFT, ""
	case m.gone:
		i.State, i.Error = sluicev1.NodeState_NODE_STATE_DEAD, m.unheard()
	default:
		m.mark(i)
	}
	return i
}

func (a *admin) ListOutlets(ctx context.Context, q *sluicev1.ListOutletsRequest) (*sluicev1.ListOutletsResponse, error) {
	reply := &sluicev1.ListOutletsResponse{}
	for _, p := range a.n.publications() {
		o := p.offer()
		reply.Outlets = append(reply.Outlets, &sluicev1.OutletInfo{
			Name: o.Name, Node: a.n.config.Name, EventType: o.EventType, Codec: o.Codec, Dispatcher: o.Dispatcher,
			Partitions: int32(o.Partitions), Subscribers: int32(len(p.rows())), Ended: o.Ended,
		})
	}
	said, silent := ask(ctx, a, q.GetScope(), func(ctx context.Context, c sluicev1.AdminServiceClient) ([]*sluicev1.OutletInfo, error) {
		r, err := c.ListOutlets(ctx, &sluicev1.ListOutletsRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		return r.GetOutlets(), err
	})
	reply.Outlets, reply.Unreachable = append(reply.Outlets, said...), unreachable(silent)
	return reply, nil
}

func (a *admin) ListStages(ctx context.Context, q *sluicev1.ListStagesRequest) (*sluicev1.ListStagesResponse, error) {
	reply := &sluicev1.ListStagesResponse{}
	for _, s := range a.n.stages {
		reply.Stages = append(reply.Stages, stageInfo(a.n.config.Name, s.Inspect()))
	}
	said, silent := ask(ctx, a, q.GetScope(), func(ctx context.Context, c sluicev1.AdminServiceClient) ([]*sluicev1.StageInfo, error) {
		r, err := c.ListStages(ctx, &sluicev1.ListStagesRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		return r.GetStages(), err
	})
	reply.Stages, reply.Unreachable = append(reply.Stages, said...), unreachable(silent)
	return reply, nil
}

func stageInfo(node string, i stage.Info) *sluicev1.StageInfo {
	s := &sluicev1.StageInfo{
		Name: i.Name, Node: node, Kind: i.Kind, State: i.State,
		EventsIn: i.In, EventsOut: i.Out, Buffered: int64(i.Buffered), UnmetDemand: i.Unmet, Discarded: i.Discarded,
	}
	if i.Err != nil {
		s.Error = i.Err.Error()
	}
	return s
}

func (a *admin) ListSubscriptions(ctx context.Context, q *sluicev1.ListSubscriptionsRequest) (*sluicev1.ListSubscriptionsResponse, error) {
	reply := &sluicev1.ListSubscriptionsResponse{}
	for _, p := range a.n.publications() {
		reply.Subscriptions = append(reply.Subscriptions, p.rows()...)
	}
	infos := make([]stage.Info, len(a.n.stages))
	consumers := consumers{}
	for i, s := range a.n.stages {
		infos[i] = s.Inspect()
		consumers.add(infos[i])
	}
	for _, i := range a.n.inboundAll() {
		row := i.row()
		if c, ok := consumers.of(row); ok {
			sized(row, c)
			if c.State == "held" && live[row.GetState()] {
				row.State = c.State
			}
		}
		reply.Subscriptions = append(reply.Subscriptions, row)
	}
	for _, i := range infos {
		reply.Subscriptions = append(reply.Subscriptions, localRows(a.n.config.Name, i, consumers)...)
	}
	said, silent := ask(ctx, a, q.GetScope(), func(ctx context.Context, c sluicev1.AdminServiceClient) ([]*sluicev1.SubscriptionInfo, error) {
		r, err := c.ListSubscriptions(ctx, &sluicev1.ListSubscriptionsRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		return r.GetSubscriptions(), err
	})
	reply.Subscriptions, reply.Unreachable = append(reply.Subscriptions, said...), unreachable(silent)
	return reply, nil
}

// live are the states of a subscription that works: what its consumer knows better
// comes before them.
var live = map[string]bool{"in-flight": true, "no-demand": true, "no-events": true, "flowing": true}

// consumers are the subscriptions of the node's stages, as those see them.
type consumers map[consumerKey]stage.SubscriptionInfo

type consumerKey struct {
	stage, outlet, publisher string
	partition                int
}

func (c consumers) add(i stage.Info) {
	for _, s := range i.Subscriptions {
		c[consumerKey{i.Name, s.Outlet, s.Publisher, s.Terms.Partition}] = s
	}
}

func (c consumers) of(row *sluicev1.SubscriptionInfo) (stage.SubscriptionInfo, bool) {
	key := consumerKey{stage: row.GetConsumerStage(), outlet: row.GetOutlet(), partition: dispatch.NoPartition}
	if row.GetSide() != sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_LOCAL {
		key.publisher = row.GetProducerNode()
	}
	if row.Partition != nil {
		key.partition = int(row.GetPartition())
	}
	s, ok := c[key]
	return s, ok
}

// sized says what a consumer that sizes its demand by itself has made of it.
func sized(row *sluicev1.SubscriptionInfo, c stage.SubscriptionInfo) {
	if c.Demand == 0 || row.GetState() == "ended" {
		return
	}
	row.MaxDemand, row.MinDemand = c.Demand, c.Demand*c.Terms.MinDemand/c.Terms.MaxDemand
	row.Reason = cmp.Or(row.GetReason(), "demand is automatic: "+c.Why)
}

// localRows are the subscriptions of a stage that do not leave the process.
func localRows(node string, i stage.Info, consumers consumers) []*sluicev1.SubscriptionInfo {
	var rows []*sluicev1.SubscriptionInfo
	for _, s := range i.Subscribers {
		if s.Terms.Node != "" {
			continue
		}
		row := &sluicev1.SubscriptionInfo{
			Outlet: s.Outlet, ProducerNode: node, ConsumerNode: node, ConsumerStage: s.Terms.Stage,
			Side: sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_LOCAL, State: s.State,
			MaxDemand: s.Terms.MaxDemand, MinDemand: s.Terms.MinDemand,
			Granted: s.Granted, Sent: s.Sent, Received: s.Sent, Acked: s.Acked,
		}
		if s.Terms.Partition != dispatch.NoPartition {
			p := int32(s.Terms.Partition)
			row.Partition = &p
		}
		if c, ok := consumers.of(row); ok {
			row.Received, row.Acked = c.Received, c.Acked
			sized(row, c)
			if live[row.State] && (c.State == "held" || c.State == "in-flight") {
				row.State = c.State
			}
		}
		rows = append(rows, row)
	}
	return rows
}
