package node

import (
	"fmt"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Outlet returns the outlet of that port on the network, whichever node offers it.
// It need not be there yet: a subscription waits for it. Subscribe to it with
// stage.Connect or stage.Subscribe, like to an outlet of this process. Two calls
// with ports of one name and type return the same outlet.
func Outlet[T any](n *Node, port wire.Port[T]) stage.Outlet[T] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.outlets[port.Name()]; ok {
		if o, ok := known.(*remote[T]); ok {
			return o
		}
		n.problems = append(n.problems, fmt.Errorf("node %q: outlet %q is used with two types of events", n.config.Name, port.Name()))
	}
	if err := port.Check(); err != nil {
		n.problems = append(n.problems, fmt.Errorf("node %q: outlet: %w", n.config.Name, err))
	}
	o := &remote[T]{n: n, port: port}
	n.outlets[port.Name()] = o
	return o
}

// remote is an outlet of another process.
type remote[T any] struct {
	n    *Node
	port wire.Port[T]
}

var (
	_ stage.Outlet[int]   = (*remote[int])(nil)
	_ stage.Upstream[int] = (*inflow[int])(nil)
	_ stage.Waiter        = (*inflow[int])(nil)
)

func (r *remote[T]) OutletName() string { return r.port.Name() }

// Done is never closed: whether an outlet of another node has ended is said to its
// subscribers.
func (r *remote[T]) Done() <-chan struct{} { return nil }

func (r *remote[T]) Attach(terms stage.Terms, to stage.Receiver[T]) (stage.Upstream[T], error) {
	n := r.n
	session := n.sessions.Add(1)
	terms.Node = n.config.Name
	about := &sluicev1.Open{
		Outlet:     r.port.Name(),
		Subscriber: &sluicev1.Subscriber{Node: terms.Node, Stage: terms.Stage},
		EventType:  r.port.EventType(), Codec: r.port.Codec().Name(),
		Terms: &sluicev1.Terms{
			MaxDemand: terms.MaxDemand, MinDemand: terms.MinDemand, Manual: terms.Manual,
			Delivery: sluicev1.Delivery_DELIVERY_AT_LEAST_ONCE,
		},
		ResumeWindow:  durationpb.New(terms.ResumeWindow),
		MaxFrameBytes: maxFrame,
		Heartbeat:     durationpb.New(n.tuning.beat),
	}
	if terms.AtMostOnce {
		about.Terms.Delivery = sluicev1.Delivery_DELIVERY_AT_MOST_ONCE
	}
	if terms.Partition >= 0 {
		p := int32(terms.Partition)
		about.Subscriber.Partition = &p
	}
	i := newInflow(n, r.port, terms, to, about, session)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != running {
		return nil, fmt.Errorf("outlet %q: node %q does not run: give it to stage.Run with the stages", r.port.Name(), n.config.Name)
	}
	for known := range n.inbound {
		o, ok := known.(*inflow[T])
		if !ok || o.port.Name() != r.port.Name() || o.terms.Stage != terms.Stage || o.terms.Partition != terms.Partition {
			continue
		}
		if !o.leaving() {
			return nil, fmt.Errorf("%w to %q: another stage of node %q has the name %q too", stage.ErrAlreadySubscribed, r.port.Name(), n.config.Name, terms.Stage)
		}
		if i.before == nil || i.before.session < o.session {
			i.before = o
		}
	}
	n.inbound[i] = struct{}{}
	n.inflows.Go(i.run)
	return i, nil
}

// inbound is a subscription of this node to an outlet elsewhere, whatever the type
// of its events.
type inbound interface {
	row() *sluicev1.SubscriptionInfo
	// peer is the address that it uses or waits for; empty for none.
	peer() string
}

func (n *Node) inboundAll() []inbound {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]inbound, 0, len(n.inbound))
	for i := range n.inbound {
		all = append(all, i)
	}
	return all
}

func (n *Node) forget(i inbound) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inbound, i)
}
