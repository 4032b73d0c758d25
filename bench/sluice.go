package main

import (
	"context"
	"fmt"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// The producer's node is known by its gossip address; the consumer joins it.

// port is the port number i as a publisher sees it, and lent as a sink does that keeps
// nothing of its events, like the consumers of the raw rows.
func port(i int) wire.Port[[]byte] { return wire.Bytes(fmt.Sprintf("events-%d", i)) }
func lent(i int) wire.Port[[]byte] { return wire.LentBytes(port(i).Name()) }

var passed, passedLent = wire.Bytes("passed"), wire.LentBytes("passed")

func newNode(s Spec) *node.Node {
	c := node.Config{
		Name: s.Role, Cluster: "bench",
	}
	if s.Address != "" {
		c.Join = []string{s.Address}
	}
	return node.New(c)
}

// herald says where the node is reached, once it is up.
type herald struct {
	n     *node.Node
	ready func(string)
}

// Run implements stage.Runner.
func (h *herald) Run(ctx context.Context) error {
	h.ready(h.n.GossipAddress())
	<-ctx.Done()
	return nil
}

func source(s Spec) *stage.Source[[]byte] {
	g := newGenerator(s)
	g.Ring(s.open() + 4*s.Batch())
	return stage.NewSource(func(ctx context.Context, demand int) ([][]byte, error) {
		n, err := g.Due(ctx, min(demand, 4*s.Batch()))
		switch {
		case err != nil:
			return nil, err
		case s.kept():
			return g.Make(n), nil
		}
		return g.Next(n), nil
	})
}

// open is how many events of a source are asked for and not acknowledged, at most.
func (s Spec) open() int {
	if s.Row == "sluice-auto" {
		return max(s.Max, min(stage.DefaultAutoMax, stage.DefaultAutoBytes/s.Size))
	}
	return s.Subs / outlets(s) * s.Max
}

func terms(s Spec) []stage.Option {
	all := []stage.Option{stage.MaxDemand(s.Max), stage.MinDemand(s.Min)}
	switch s.Row {
	case "sluice-at-most-once":
		all = append(all, stage.AtMostOnce())
	case "sluice-auto":
		all = append(all, stage.AutoDemand(stage.Auto{}))
	}
	return all
}

// split cases have an outlet and a source for every subscription; the others share one.
func outlets(s Spec) int {
	if s.Name == "subscriptions" {
		return s.Subs
	}
	return 1
}

func sluiceProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	n := newNode(s)
	var all []stage.Runner
	for i := range outlets(s) {
		src := source(s)
		switch s.Name {
		case "broadcast-1", "broadcast-8":
			src.Dispatcher = dispatch.Broadcast[[]byte]()
		}
		node.Publish(n, port(i), src)
		all = append(all, src)
	}
	return runNode(ctx, n, ready, all)
}

func sluiceGate(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	n := newNode(s)
	gate := stage.NewGate(func(_ context.Context, events [][]byte) ([][]byte, error) {
		return events, nil
	})
	stage.Connect(node.Outlet(n, port(0)), gate, terms(s)...)
	node.Publish(n, passed, gate)
	return runNode(ctx, n, ready, []stage.Runner{gate})
}

func sluiceConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	n := newNode(s)
	var all []stage.Runner
	for i := range s.Subs {
		check := Checker{m: m, any: s.Name == "demand-8", late: s.Name == "broadcast-8"}
		sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
			check.took(s, events)
			return nil
		})
		from := lent(min(i, outlets(s)-1))
		switch {
		case s.Name == "three-stages":
			from = passedLent
		case s.kept():
			from = port(min(i, outlets(s)-1))
		}
		stage.Connect(node.Outlet(n, from), sink, terms(s)...)
		all = append(all, sink)
	}
	return runNode(ctx, n, ready, all)
}

// runNode runs the stages on a node, and says where that is reached.
func runNode(ctx context.Context, n *node.Node, ready func(string), all []stage.Runner) error {
	return stage.Run(ctx, append([]stage.Runner{n, &herald{n: n, ready: ready}}, all...)...)
}
