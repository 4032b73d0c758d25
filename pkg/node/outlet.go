package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/group"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Outlet returns the outlet of that port on the network, whichever nodes offer it.
// It need not be there yet: a subscription waits for it. Subscribe to it with
// stage.Connect or stage.Subscribe, like to an outlet of this process.
//
// A subscription follows every node that offers the outlet, as they come and go, with
// a demand of its own for each; [One] stays with one of them. Events of one publisher
// come in order; nothing is promised between two. The subscription has completed when
// all have that it followed; [Expect] waits for more. A publisher that is stopped,
// fails or is lost leaves the others to it. When nobody is left, the subscription
// waits for another one for its resume window, and ends then as the last one did.
//
// Two calls with ports of one name and type, and the same options, return the same
// outlet.
func Outlet[T any](n *Node, port wire.Port[T], opts ...OutletOption) stage.Outlet[T] {
	var f follow
	for _, o := range opts {
		o(&f)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range n.outlets[port.Name()] {
		o, ok := known.(*remote[T])
		if ok && o.follow == f && o.Lends() == lends(port) {
			return o
		}
		if !ok {
			n.problems = append(n.problems, fmt.Errorf("node %q: outlet %q is used with two types of events", n.config.Name, port.Name()))
			break
		}
	}
	if err := port.Check(); err != nil {
		n.problems = append(n.problems, fmt.Errorf("node %q: outlet: %w", n.config.Name, err))
	}
	if f.expect < 0 {
		n.problems = append(n.problems, fmt.Errorf("node %q: outlet %q: Expect(%d): want at least 0", n.config.Name, port.Name(), f.expect))
	}
	o := &remote[T]{n: n, port: port, follow: f}
	n.outlets[port.Name()] = append(n.outlets[port.Name()], o)
	return o
}

// OutletOption says which of the nodes that offer an outlet are followed.
type OutletOption func(*follow)

// follow is what the options say.
type follow struct {
	one    bool
	expect int
}

// One follows one of the nodes that offer the outlet: one of the same zone if there is
// any, and else by a hash of the stage's name and theirs, so that many subscribers
// spread over them. When it is about to leave, cannot be reached for two seconds, or
// has ended in another way than by completing, another one is followed, beside it as
// long as it has something left. A subscription to a partition follows all of them
// nevertheless.
func One() OutletOption { return func(f *follow) { f.one = true } }

// Expect lets the subscription wait until n nodes have completed, also for such as are
// not there yet. The default, 0, is those that are there.
func Expect(n int) OutletOption { return func(f *follow) { f.expect = n } }

// remote is an outlet of other processes.
type remote[T any] struct {
	n    *Node
	port wire.Port[T]
	follow
}

var (
	_ stage.Plural[int]   = (*remote[int])(nil)
	_ stage.Lender        = (*remote[int])(nil)
	_ stage.Upstream[int] = (*inflow[int])(nil)
)

func (r *remote[T]) OutletName() string { return r.port.Name() }

// Done is never closed: whether an outlet of another node has ended is said to its
// subscribers.
func (r *remote[T]) Done() <-chan struct{} { return nil }

// Lends implements stage.Lender.
func (r *remote[T]) Lends() bool { return lends(r.port) }

func lends[T any](port wire.Port[T]) bool { return wire.MemoryOf(port.Codec()) == wire.Lent }

// AttachAll implements stage.Plural.
func (r *remote[T]) AttachAll(terms stage.Terms, to stage.Members[T]) (stage.Upstream[T], error) {
	n := r.n
	terms.Node = n.config.Name
	g := &following[T]{
		n: n, port: r.port, terms: terms, to: to, about: r.about(terms), since: time.Now(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		core: group.New(group.Terms{
			One: r.one && terms.Partition == dispatch.NoPartition, Expect: r.expect,
			Window: terms.ResumeWindow, Settle: n.tuning.settle, Patience: n.tuning.patience, Pause: time.Second,
		}),
		members: map[group.ID]*inflow[T]{}, found: map[group.ID]publisher{}, why: unoffered(r.port.Name()),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != running {
		return nil, fmt.Errorf("outlet %q: node %q does not run: give it to stage.Run with the stages", r.port.Name(), n.config.Name)
	}
	for known := range n.followings {
		o, ok := known.(*following[T])
		if !ok || o.port.Name() != r.port.Name() || o.terms.Stage != terms.Stage || o.terms.Partition != terms.Partition {
			continue
		}
		if !o.leaving() {
			return nil, fmt.Errorf("%w to %q: another stage of node %q has the name %q too", stage.ErrAlreadySubscribed, r.port.Name(), n.config.Name, terms.Stage)
		}
		if g.before == nil || g.before.since.Before(o.since) {
			g.before = o
		}
	}
	n.followings[g] = struct{}{}
	n.inflows.Go(g.run)
	return g, nil
}

// about is what every Open says.
func (r *remote[T]) about(terms stage.Terms) *sluicev1.Open {
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
		Heartbeat:     durationpb.New(r.n.tuning.beat),
	}
	if terms.AtMostOnce {
		about.Terms.Delivery = sluicev1.Delivery_DELIVERY_AT_MOST_ONCE
	}
	if terms.Partition >= 0 {
		p := int32(terms.Partition)
		about.Subscriber.Partition = &p
	}
	return about
}

// inbound is a subscription of this node to an outlet elsewhere, whatever the type
// of its events.
type inbound interface {
	row() *sluicev1.SubscriptionInfo
	// peer is the address that it uses or waits for; empty for none.
	peer() string
}

// followed is a subscription of this node, whatever the type of its events.
type followed interface{ inbound() []inbound }

func (n *Node) inboundAll() []inbound {
	n.mu.Lock()
	groups := slices.Collect(maps.Keys(n.followings))
	n.mu.Unlock()
	var all []inbound
	for _, g := range groups {
		all = append(all, g.inbound()...)
	}
	return all
}

func (n *Node) forget(g followed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.followings, g)
}
