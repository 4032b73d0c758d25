package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/group"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// following is one subscription of a stage to an outlet of the network: a group of
// publishers, and an inflow for each of them that is followed. What is to be done is
// decided by the core; run tells it what discovery shows, and does it.
type following[T any] struct {
	n      *Node
	port   wire.Port[T]
	terms  stage.Terms
	to     stage.Members[T]
	about  *sluicev1.Open
	wake   chan struct{}
	before *following[T] // of the same stage to the same outlet, that comes to its end
	since  time.Time
	done   chan struct{} // closed when it is over

	mu      sync.Mutex
	core    *group.Group
	members map[group.ID]*inflow[T] // those whose run has not ended
	found   map[group.ID]publisher
	why     error // what it waits for, without a member
}

var (
	_ stage.Upstream[int] = (*following[int])(nil)
	_ stage.Waiter        = (*following[int])(nil)
)

func (p publisher) id() group.ID { return group.ID{Node: p.node, Incarnation: p.incarnation} }

// Cancel implements stage.Upstream: nobody is joined any more.
func (g *following[T]) Cancel(stage.Cancel[T]) {
	g.tell(func(time.Time) { g.core.Leave() })
}

// Ask implements stage.Upstream. Members are asked.
func (g *following[T]) Ask(int64, int64, ...stage.Range) error { return nil }

// Ack implements stage.Upstream.
func (g *following[T]) Ack(int64, ...stage.Range) error { return nil }

// Revoke implements stage.Upstream.
func (g *following[T]) Revoke() int64 { return 0 }

// Discard implements stage.Upstream.
func (g *following[T]) Discard(int, string) {}

// Waiting implements stage.Waiter.
func (g *following[T]) Waiting() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range g.members {
		if why := i.waits(); why != nil {
			return why
		}
	}
	return g.why
}

// tell changes the core, and lets run look again.
func (g *following[T]) tell(news func(now time.Time)) {
	g.mu.Lock()
	news(time.Now())
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *following[T]) opened(id group.ID)  { g.tell(func(time.Time) { g.core.Opened(id) }) }
func (g *following[T]) unready(id group.ID) { g.tell(func(time.Time) { g.core.Unready(id) }) }
func (g *following[T]) drains(id group.ID)  { g.tell(func(time.Time) { g.core.Draining(id) }) }
func (g *following[T]) broken(id group.ID) {
	g.tell(func(now time.Time) { g.core.Broken(now, id) })
}

func (g *following[T]) ended(id group.ID, session uint64, e stage.Ending) {
	g.tell(func(now time.Time) {
		g.core.Ended(now, group.Departure{ID: id, How: group.How(e.Reason), Err: e.Err})
		if !g.core.Leaving() {
			level := slog.LevelInfo
			if !e.Reason.Normal() {
				level = slog.LevelWarn
			}
			g.n.log.Log(context.Background(), level, "a publisher is not followed any more", "outlet", g.port.Name(), "stage", g.terms.Stage, "at", id.Node, "session", session, "how", e.Reason, "why", e.Err)
		}
	})
}

// leaving reports whether the stage has no more use for the subscription.
func (g *following[T]) leaving() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.core.Leaving()
}

// run carries the subscription to its end.
func (g *following[T]) run() {
	defer close(g.done)
	defer g.n.forget(g)
	var members sync.WaitGroup
	defer members.Wait()
	// A stage may subscribe while the node starts.
	select {
	case <-g.n.up:
	case <-g.n.ctx.Done():
		g.to.Ended(g.cut())
		return
	}
	if g.before != nil {
		// Were a new session opened first, its producer would give back what the old one
		// has just processed.
		g.waits(fmt.Errorf("an earlier subscription of the stage to %q comes to its end", g.port.Name()))
		pause(g.n.ctx, g.n.tuning.farewell, g.before.done)
		g.before = nil
	}
	for {
		changed := g.look()
		step := g.next(&members)
		if step.Over != nil {
			g.to.Ended(stage.Ending{Reason: stage.Reason(step.Over.How), Err: step.Over.Err})
			return
		}
		wait := time.Hour
		if !step.At.IsZero() {
			wait = time.Until(step.At)
		}
		if !pause(g.n.ctx, wait, changed, g.wake) {
			members.Wait()
			g.to.Ended(g.cut())
			return
		}
	}
}

// cut is how the subscription ends when the node is stopped.
func (g *following[T]) cut() stage.Ending {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.core.Leave()
	if last := g.core.Last(); errors.Is(last.Err, errStopped) {
		return stage.Ending{Reason: stage.Reason(last.How), Err: errStopped}
	}
	return stage.Ending{Reason: stage.Cancelled, Err: errStopped}
}

// look tells the core who offers the outlet.
func (g *following[T]) look() (changed <-chan struct{}) {
	found, changed := g.n.cluster.find(g.port.Name(), g.terms.Node+"/"+g.terms.Stage)
	seen := make([]group.Publisher, len(found))
	why := unoffered(g.port.Name())
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.found)
	for i, p := range found {
		seen[i] = group.Publisher{ID: p.id(), Draining: p.draining, Ended: p.ended}
		g.found[p.id()] = p
		if p.draining {
			why = fmt.Errorf("node %q is about to leave", p.node)
		}
	}
	g.core.See(seen)
	if last := g.core.Last(); last.Err != nil {
		why = last.Err
	}
	g.why = why
	return changed
}

// next does what the core says.
func (g *following[T]) next(running *sync.WaitGroup) group.Step {
	g.mu.Lock()
	step := g.core.Next(time.Now())
	var join, leave []*inflow[T]
	for _, id := range step.Join {
		join = append(join, newInflow(g, g.found[id]))
	}
	if step.Over != nil {
		for _, i := range g.members {
			leave = append(leave, i)
		}
	}
	for _, id := range step.Leave {
		if i := g.members[id]; i != nil {
			leave = append(leave, i)
		}
	}
	for _, id := range step.Drop {
		if i := g.members[id]; i != nil {
			i.drop()
		}
	}
	g.mu.Unlock()
	// No lock is held while the stage is called.
	for _, i := range leave {
		i.leave("it is not needed any more")
	}
	for _, i := range join {
		g.join(i, running)
	}
	return step
}

// join enters a member at the stage, and lets it run.
func (g *following[T]) join(i *inflow[T], running *sync.WaitGroup) {
	to, ok := g.to.Join(stage.Member{Publisher: i.at.node, Session: i.session}, i)
	if !ok {
		g.tell(func(now time.Time) {
			g.core.Leave()
			g.core.Ended(now, group.Departure{ID: i.at.id(), How: group.Cancelled})
		})
		return
	}
	i.to = to
	g.mu.Lock()
	if old := g.members[i.at.id()]; old != nil {
		i.before = old.done
	}
	g.members[i.at.id()] = i
	g.mu.Unlock()
	running.Go(func() {
		i.run()
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.members[i.at.id()] == i {
			delete(g.members, i.at.id())
		}
	})
}

func (g *following[T]) waits(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
}

// inbound are the rows of the subscription: its members, or itself while it has none.
func (g *following[T]) inbound() []inbound {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]inbound, 0, len(g.members))
	for _, i := range g.members {
		all = append(all, i)
	}
	if len(all) == 0 {
		all = append(all, g)
	}
	return all
}

func (g *following[T]) row() *sluicev1.SubscriptionInfo {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &sluicev1.SubscriptionInfo{
		Outlet: g.port.Name(), ConsumerNode: g.terms.Node, ConsumerStage: g.terms.Stage,
		Side:  sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER,
		State: "waiting", Reason: g.why.Error(), MaxDemand: g.terms.MaxDemand, MinDemand: g.terms.MinDemand,
		Age: durationpb.New(time.Since(g.since)), Incarnation: g.n.incarnation,
		Partition: g.about.GetSubscriber().Partition,
	}
}

func (g *following[T]) peer() string { return "" }
