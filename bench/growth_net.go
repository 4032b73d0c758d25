package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/sluicenet/sluice/internal/registry"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

func networkCurves() []*curve {
	return []*curve{
		{Name: "demand, gRPC", Of: "subscribers", Unit: "CPU ns an event", Steps: []int{1, 10, 100}, measure: func(n int) (float64, error) {
			return across(n, dispatch.Demand[int]())
		}},
		{Name: "broadcast, gRPC", Of: "subscribers", Unit: "CPU ns a copy", Steps: []int{1, 10, 100}, measure: func(n int) (float64, error) {
			return across(n, dispatch.Broadcast[int]())
		}},
		{Name: "subscribe, gRPC", Of: "subscriptions", Unit: "CPU µs a subscription, made and ended", Steps: []int{10, 100, 1000}, measure: subscribing},
		{Name: "publish", Of: "outlets", Unit: "CPU µs to publish an outlet and to name it elsewhere", Steps: []int{1, 10, 100, 1000, 10_000}, measure: func(n int) (float64, error) {
			o, err := offer(n)
			return o.publish, err
		}},
		{Name: "look up", Of: "outlets", Unit: "µs until one of them is subscribed to", Steps: []int{1, 10, 100, 1000, 10_000}, measure: func(n int) (float64, error) {
			o, err := offer(n)
			return o.subscribe, err
		}},
		{Name: "catalog", Of: "outlets", Unit: "bytes an outlet", Steps: []int{1, 10, 100, 1000, 10_000}, measure: func(n int) (float64, error) {
			o, err := offer(n)
			return o.bytes, err
		}},
		{Name: "catalogs", Of: "nodes", Unit: "ns a node, to take in its catalog and to rank it", Steps: []int{1, 10, 100, 1000}, measure: merging},
		{Name: "cluster", Of: "nodes", Unit: "CPU ms a node and second", Steps: []int{2, 10, 50}, measure: clustered},
	}
}

// alone is a node of a cluster of its own.
func alone(cluster, name string, join ...string) *node.Node {
	return node.New(node.Config{Name: name, Cluster: cluster, Join: join, Logger: slog.New(slog.DiscardHandler)})
}

// running is a node and its stages, which run.
type running struct {
	n    *node.Node
	stop context.CancelFunc
	done chan error
}

// begin runs a node, and waits until it is up.
func begin(n *node.Node, all ...stage.Runner) (*running, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{n: n, stop: cancel, done: make(chan error, 1)}
	up := make(chan struct{})
	go func() { r.done <- runNode(ctx, n, func(string) { close(up) }, all) }()
	select {
	case <-up:
		return r, nil
	case err := <-r.done:
		cancel()
		return nil, err
	}
}

// end stops it, where it has not ended.
func (r *running) end() error {
	r.stop()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// across is spread with the source on one node and the sinks on another one.
func across(n int, d dispatch.Dispatcher[int]) (float64, error) {
	port := wire.JSON[int]("numbers")
	f := newFlow(n)
	a := alone("across", "a")
	source := sourceOf(f, d)
	node.Publish(a, port, source)
	runA, err := begin(a, source)
	if err != nil {
		return 0, err
	}
	b := alone("across", "b", a.GossipAddress())
	var sinks []stage.Runner
	var ended sync.WaitGroup
	for range n {
		sink := sinkOf(f)
		stage.Connect(node.Outlet(b, port), sink)
		sinks = append(sinks, sink)
		ended.Go(func() { <-sink.Ended() })
	}
	runB, err := begin(b, sinks...)
	if err != nil {
		return 0, err
	}
	ended.Wait()
	err = errors.Join(runB.end(), runA.end())
	return f.each(), err
}

// pairOf are a node with a quiet outlet among others, and one that has joined it.
func pairOf(outlets int) (a, b *running, ports []wire.Port[int], spent time.Duration, err error) {
	before := cpu()
	na := alone("growth", "a")
	source := stage.FromChan(make(chan int))
	for i := range outlets {
		ports = append(ports, wire.JSON[int](fmt.Sprintf("numbers-%05d", i)))
		if i == outlets-1 {
			node.Publish(na, ports[i], source)
		} else {
			node.Publish(na, ports[i], stage.FromChan(make(chan int)))
		}
	}
	spent = cpu() - before
	if a, err = begin(na, source); err != nil {
		return nil, nil, nil, 0, err
	}
	nb := alone("growth", "b", na.GossipAddress())
	before = cpu()
	for _, p := range ports {
		node.Outlet(nb, p)
	}
	spent += cpu() - before
	b, err = begin(nb)
	return a, b, ports, spent, err
}

// subscribe makes and ends n subscriptions to an outlet, one sink each and all at once.
func subscribe(from stage.Outlet[int], n int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all []stage.Runner
	var there sync.WaitGroup
	there.Add(n)
	for range n {
		sink := stage.NewSink(func(context.Context, []int) error { return nil })
		sink.OnSubscribed = func(*stage.Subscription) error {
			there.Done()
			return nil
		}
		stage.Connect(from, sink)
		all = append(all, sink)
	}
	go func() {
		there.Wait()
		cancel()
	}()
	if err := stage.Run(ctx, all...); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("subscriptions end early: %w", err)
	}
	return nil
}

// subscribing is what each of n subscriptions costs that are made at once, and ended.
func subscribing(n int) (float64, error) {
	a, b, ports, _, err := pairOf(1)
	if err != nil {
		return 0, err
	}
	from := node.Outlet(b.n, ports[0])
	if err := subscribe(from, 1); err != nil {
		return 0, err
	}
	before := cpu()
	err = subscribe(from, n)
	each := (cpu() - before).Seconds() * 1e6 / float64(n)
	return each, errors.Join(err, b.end(), a.end())
}

// offered is what outlets cost on a node.
type offered struct{ publish, subscribe, bytes float64 }

func offer(n int) (o offered, err error) {
	a, b, ports, spent, err := pairOf(n)
	if err != nil {
		return o, err
	}
	o.publish = spent.Seconds() * 1e6 / float64(n)
	from := node.Outlet(b.n, ports[n-1])
	if err := subscribe(from, 1); err != nil {
		return o, err
	}
	const times = 20
	before := time.Now()
	for range times {
		if err := subscribe(from, 1); err != nil {
			return o, err
		}
	}
	o.subscribe = time.Since(before).Seconds() * 1e6 / times
	conn, err := grpc.NewClient("passthrough:///"+a.n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return o, err
	}
	defer func() { _ = conn.Close() }()
	got, err := sluicev1.NewCatalogServiceClient(conn).GetCatalog(context.Background(), &sluicev1.GetCatalogRequest{}, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		return o, err
	}
	o.bytes = float64(proto.Size(got)) / float64(n)
	return o, errors.Join(b.end(), a.end())
}

// merging is what each of n nodes costs that offer an outlet of the same name.
func merging(n int) (float64, error) {
	catalogs, alive := make([]registry.Catalog, n), make([]registry.Candidate, n)
	for i := range n {
		name := fmt.Sprintf("node-%04d", i)
		catalogs[i] = registry.Catalog{Node: name, Incarnation: 1, Version: 1, Outlets: []registry.Outlet{{Name: "numbers", EventType: "int", Codec: "json", Dispatcher: "demand"}}}
		alive[i] = registry.Candidate{Node: name}
	}
	rounds := max(20_000/n, 1)
	before := cpu()
	for range rounds {
		var s registry.State
		for _, c := range catalogs {
			s.Put(c)
		}
		if len(s.Rank("numbers", "a/sink", alive, "")) != n {
			return 0, errors.New("nodes are missing")
		}
	}
	return float64(cpu()-before) / float64(rounds*n), nil
}

// clustered is what each of n nodes of a cluster costs that does nothing.
func clustered(n int) (float64, error) {
	var all []*running
	var seed []string
	for i := range n {
		r, err := begin(alone("clustered", fmt.Sprint("node-", i), seed...))
		if err != nil {
			return 0, err
		}
		all = append(all, r)
		seed = []string{all[0].n.GossipAddress()}
	}
	time.Sleep(3 * time.Second) // until everybody knows everybody
	const lasts = 5 * time.Second
	before, since := cpu(), time.Now()
	time.Sleep(lasts)
	each := (cpu() - before).Seconds() * 1e3 / time.Since(since).Seconds() / float64(n)
	ended := make(chan error, n)
	for _, r := range all {
		go func() { ended <- r.end() }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-ended)
	}
	return each, err
}
