package node

import (
	"context"
	"errors"
	"io"
	"sort"
	"sync"
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

// answerTime is how long other nodes are given, where the caller sets no limit.
const answerTime = 3 * time.Second

// ask calls one for every living member, at once, and returns who did not answer.
// They get most of the time that the caller has, so that its answer arrives.
func (a *admin) ask(ctx context.Context, scope sluicev1.Scope, one func(ctx context.Context, m member, c sluicev1.AdminServiceClient) error) []*sluicev1.Unreachable {
	if scope == sluicev1.Scope_SCOPE_NODE {
		return nil
	}
	limit := answerTime
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*8/10)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	members, _ := a.n.cluster.view()
	var mu sync.Mutex
	var silent []*sluicev1.Unreachable
	var wg sync.WaitGroup
	for _, m := range members {
		if m.gone {
			continue
		}
		wg.Go(func() {
			conn, done, err := a.n.peers.dial(m.address)
			if err == nil {
				defer done()
				err = one(ctx, m, sluicev1.NewAdminServiceClient(conn))
			}
			if err == nil {
				return
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = errors.New("no answer in time")
			}
			mu.Lock()
			defer mu.Unlock()
			silent = append(silent, &sluicev1.Unreachable{Node: m.node, Address: m.address, Error: status.Convert(err).Message()})
		})
	}
	wg.Wait()
	sort.Slice(silent, func(i, j int) bool { return silent[i].GetNode() < silent[j].GetNode() })
	return silent
}

func (a *admin) ListNodes(ctx context.Context, q *sluicev1.ListNodesRequest) (*sluicev1.ListNodesResponse, error) {
	reply := &sluicev1.ListNodesResponse{Nodes: []*sluicev1.NodeInfo{a.self()}}
	var mu sync.Mutex
	answered := map[string]bool{}
	reply.Unreachable = a.ask(ctx, q.GetScope(), func(ctx context.Context, m member, c sluicev1.AdminServiceClient) error {
		r, err := c.ListNodes(ctx, &sluicev1.ListNodesRequest{Scope: sluicev1.Scope_SCOPE_NODE})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, other := range r.GetNodes() {
			m.mark(other)
			reply.Nodes = append(reply.Nodes, other)
			answered[m.name] = true
		}
		return nil
	})
	if q.GetScope() == sluicev1.Scope_SCOPE_NODE {
		return reply, nil
	}
	members, _ := a.n.cluster.view()
	for _, m := range members {
		if !answered[m.name] {
			reply.Nodes = append(reply.Nodes, m.info())
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
		Stages: int32(len(n.stages)), Outlets: int32(len(n.publications())), Uptime: durationpb.New(time.Since(n.started)),
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
		i.State, i.Error = sluicev1.NodeState_NODE_STATE_DEAD, "gossip has not heard of it since "+m.since.Format(time.TimeOnly)
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
	var mu sync.Mutex
	reply.Unreachable = a.ask(ctx, q.GetScope(), func(ctx context.Context, _ member, c sluicev1.AdminServiceClient) error {
		r, err := c.ListOutlets(ctx, &sluicev1.ListOutletsRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		mu.Lock()
		defer mu.Unlock()
		reply.Outlets = append(reply.Outlets, r.GetOutlets()...)
		return err
	})
	return reply, nil
}

func (a *admin) ListStages(ctx context.Context, q *sluicev1.ListStagesRequest) (*sluicev1.ListStagesResponse, error) {
	reply := &sluicev1.ListStagesResponse{}
	for _, s := range a.n.stages {
		reply.Stages = append(reply.Stages, stageInfo(a.n.config.Name, s.Inspect()))
	}
	var mu sync.Mutex
	reply.Unreachable = a.ask(ctx, q.GetScope(), func(ctx context.Context, _ member, c sluicev1.AdminServiceClient) error {
		r, err := c.ListStages(ctx, &sluicev1.ListStagesRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		mu.Lock()
		defer mu.Unlock()
		reply.Stages = append(reply.Stages, r.GetStages()...)
		return err
	})
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
		if c, ok := consumers.of(row); ok && c.State == "held" && live[row.GetState()] {
			row.State = c.State
		}
		reply.Subscriptions = append(reply.Subscriptions, row)
	}
	for _, i := range infos {
		reply.Subscriptions = append(reply.Subscriptions, localRows(a.n.config.Name, i, consumers)...)
	}
	var mu sync.Mutex
	reply.Unreachable = a.ask(ctx, q.GetScope(), func(ctx context.Context, _ member, c sluicev1.AdminServiceClient) error {
		r, err := c.ListSubscriptions(ctx, &sluicev1.ListSubscriptionsRequest{Scope: sluicev1.Scope_SCOPE_NODE}, largeAnswer)
		mu.Lock()
		defer mu.Unlock()
		reply.Subscriptions = append(reply.Subscriptions, r.GetSubscriptions()...)
		return err
	})
	return reply, nil
}

// live are the states of a subscription that works: what its consumer knows better
// comes before them.
var live = map[string]bool{"in-flight": true, "no-demand": true, "no-events": true, "flowing": true}

// consumers are the subscriptions of the node's stages, as those see them.
type consumers map[consumerKey]stage.SubscriptionInfo

type consumerKey struct {
	stage, outlet string
	partition     int
}

func (c consumers) add(i stage.Info) {
	for _, s := range i.Subscriptions {
		c[consumerKey{i.Name, s.Outlet, s.Terms.Partition}] = s
	}
}

func (c consumers) of(row *sluicev1.SubscriptionInfo) (stage.SubscriptionInfo, bool) {
	key := consumerKey{row.GetConsumerStage(), row.GetOutlet(), dispatch.NoPartition}
	if row.Partition != nil {
		key.partition = int(row.GetPartition())
	}
	s, ok := c[key]
	return s, ok
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
			if live[row.State] && (c.State == "held" || c.State == "in-flight") {
				row.State = c.State
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// tapRoom is how many events may wait for a slow tap before it misses some.
const tapRoom = 256

// tapped is an event that a tap shows. It is encoded only when it is shown.
type tapped struct {
	said   *sluicev1.TapResponse
	encode func() []byte
}

func (a *admin) Tap(q *sluicev1.TapRequest, out sluicev1.AdminService_TapServer) error {
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	events := make(chan tapped, tapRoom)
	ends, err := a.tapAll(ctx, q, events)
	if err != nil {
		return err
	}
	// From here on it misses nothing without saying so.
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	for shown := int64(0); q.GetLimit() <= 0 || shown < q.GetLimit(); {
		select {
		case e := <-events:
			if e.encode != nil {
				e.said.Event = e.encode()
			}
			if err := out.Send(e.said); err != nil {
				return err
			}
			if len(e.said.GetUnreachable()) == 0 {
				shown++
			}
		case <-ends:
			// Nobody sends any more: what waits is shown, and that is all.
			if len(events) == 0 {
				return nil
			}
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-a.n.ctx.Done():
			return status.Error(codes.Unavailable, "the node is stopped")
		}
	}
	return nil
}

// tapAll taps the outlet here and, if asked, wherever else it is offered. ends is
// closed when all of them have ended.
func (a *admin) tapAll(ctx context.Context, q *sluicev1.TapRequest, events chan tapped) (ends <-chan struct{}, err error) {
	var taps sync.WaitGroup
	found := false
	a.n.mu.Lock()
	p := a.n.published[q.GetOutlet()]
	a.n.mu.Unlock()
	if p != nil {
		stop, err := a.tapHere(p, events)
		if err != nil {
			return nil, status.Error(codes.Unimplemented, err.Error())
		}
		found = true
		taps.Go(func() {
			defer stop()
			select {
			case <-p.done():
			case <-ctx.Done():
			}
		})
	}
	if q.GetScope() != sluicev1.Scope_SCOPE_NODE {
		publishers, _ := a.n.cluster.find(q.GetOutlet(), "")
		for _, m := range publishers {
			if m.node != a.n.config.Name {
				found = true
				taps.Go(func() { a.tapThere(ctx, q, m, events) })
			}
		}
	}
	if !found {
		return nil, status.Errorf(codes.NotFound, "no node offers an outlet %q", q.GetOutlet())
	}
	over := make(chan struct{})
	go func() {
		taps.Wait()
		close(over)
	}()
	return over, nil
}

// tapHere shows what an outlet of this node emits. It runs as a part of the flow, so
// it does not wait: what finds no room is missed, and counted.
func (a *admin) tapHere(p publication, events chan<- tapped) (stop func(), err error) {
	var missed int64
	codec := p.offer().Codec
	return p.tap(func(n int, encode func(i int) func() []byte) {
		for i := range n {
			// Nothing is made for an event that finds no room.
			if len(events) == cap(events) {
				missed += int64(n - i)
				return
			}
			select {
			case events <- tapped{&sluicev1.TapResponse{Node: a.n.config.Name, Codec: codec, Missed: missed}, encode(i)}:
				missed = 0
			default:
				missed++
			}
		}
	})
}

// tapThere shows what another node shows, and says so when it does not.
func (a *admin) tapThere(ctx context.Context, q *sluicev1.TapRequest, m publisher, to chan<- tapped) {
	show := func(r *sluicev1.TapResponse) bool {
		select {
		case to <- tapped{said: r}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := func() error {
		conn, done, err := a.n.peers.dial(m.address)
		if err != nil {
			return err
		}
		defer done()
		from, err := sluicev1.NewAdminServiceClient(conn).Tap(ctx, &sluicev1.TapRequest{
			Outlet: q.GetOutlet(), Limit: q.GetLimit(), Scope: sluicev1.Scope_SCOPE_NODE,
		})
		if err != nil {
			return err
		}
		for {
			r, err := from.Recv()
			if err != nil {
				return err
			}
			if !show(r) {
				return ctx.Err()
			}
		}
	}()
	if err != io.EOF { //nolint:errorlint // as Recv returns it
		show(&sluicev1.TapResponse{Unreachable: []*sluicev1.Unreachable{{Node: m.node, Address: m.address, Error: status.Convert(err).Message()}}})
	}
}
