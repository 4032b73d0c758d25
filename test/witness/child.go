//go:build linux

package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/test/harness"
)

// childEnv tells a process what node it is. The program is its own child.
const childEnv = "SLUICE_WITNESS_NODE"

var errTold = errors.New("told to end")

// child is one process of the network.
type child struct {
	spec    nodeSpec
	node    *node.Node
	runners []stage.Runner
	loops   []func(ctx context.Context) // that keep a stage subscribed
	records []*recorder
	byInlet map[string]*recorder // by the names of the stages that consume
}

// Child runs a node when the process is one of a [Network], and does not return then.
func Child() {
	if env, ok := os.LookupEnv(childEnv); ok {
		os.Exit(runChild(env))
	}
}

// runChild runs the node that the environment names, and returns the exit code.
func runChild(env string) int {
	var spec nodeSpec
	if err := json.Unmarshal([]byte(env), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errTold)
	}()
	c := &child{spec: spec, byInlet: map[string]*recorder{}}
	c.node = node.New(node.Config{
		Logger: slog.New(&listener{Handler: slog.Default().Handler(), c: c}),
		Name:   spec.Name, Cluster: spec.Cluster, Listen: spec.Listen, Advertise: spec.Advertise, Gossip: spec.Gossip, Join: spec.Join,
		MaxUnackedBytes: spec.MaxUnackedBytes,
	})
	for _, s := range spec.Stages {
		if err := c.add(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	err := c.run(ctx)
	for _, r := range c.records {
		r.write("X %v", err)
	}
	if !errors.Is(err, errTold) {
		fmt.Fprintln(os.Stderr, "ended:", err)
		return 1
	}
	return 0
}

func (c *child) run(ctx context.Context) error {
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { c.report(ended) })
	for _, loop := range c.loops {
		wg.Go(func() { loop(ctx) })
	}
	err := stage.Run(ctx, append([]stage.Runner{c.node}, c.runners...)...)
	close(ended)
	wg.Wait()
	return err
}

// report prints now and then how the process is.
func (c *child) report(ended <-chan struct{}) {
	out := json.NewEncoder(os.Stdout)
	for tick := 0; ; tick++ {
		v := Vitals{Goroutines: runtime.NumGoroutine()}
		if tick%10 == 9 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			v.Heap = m.HeapAlloc
		}
		for i, r := range c.records {
			if c.spec.Stages[i].Kind == "sink" {
				v.Handled += r.count()
			}
		}
		_ = out.Encode(v)
		select {
		case <-ended:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// add makes a stage.
func (c *child) add(s stageSpec) error {
	r, err := newRecorder(c.spec, s)
	if err != nil {
		return err
	}
	c.records = append(c.records, r)
	switch s.Kind {
	case "source":
		c.source(s, r)
	case "gate":
		c.gate(s, r)
	case "sink":
		c.sink(s, r)
	}
	return nil
}

func (c *child) source(s stageSpec, r *recorder) {
	random := rand.New(rand.NewPCG(c.spec.Seed, uint64(c.spec.Run)))
	n := 0
	source := stage.NewSource(func(ctx context.Context, demand int) ([]event, error) {
		if random.IntN(50) == 0 {
			harness.Sleep(ctx, time.Duration(random.IntN(50))*time.Millisecond) // idle, now and then
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		pad := ""
		if random.IntN(4) == 0 {
			pad = strings.Repeat("sluice", random.IntN(1000))
		}
		events := make([]event, demand)
		for i := range events {
			n++
			events[i] = event{c.spec.Run, n, pad}
		}
		r.emitted(n)
		return events, nil
	})
	source.Name, source.OnDiscard = s.Pipe+".source", r.discarded
	node.Publish(c.node, raw(s.Pipe), source)
	c.runners = append(c.runners, source)
}

func (c *child) gate(s stageSpec, r *recorder) {
	n := 0
	gate := stage.NewGate(func(ctx context.Context, events []event) ([]event, error) {
		r.batch(ctx, events)
		out := make([]event, len(events))
		for i := range out {
			n++
			out[i] = event{c.spec.Run, n, events[i].Pad}
		}
		r.emitted(n)
		return out, nil
	})
	gate.Name, gate.OnDiscard = s.Pipe+".gate", r.discarded
	switch s.Dispatcher {
	case "broadcast":
		gate.Dispatcher = dispatch.Broadcast[event]()
	case "partition":
		gate.Dispatcher = dispatch.Partition(2, func(e event) int { return e.N })
	}
	gate.Name = s.Pipe + ".gate"
	node.Publish(c.node, done(s.Pipe), gate)
	c.runners = append(c.runners, gate)
	c.subscribed(node.Outlet(c.node, raw(s.Pipe)), gate.Name, gate, s, r)
}

func (c *child) sink(s stageSpec, r *recorder) {
	sink := stage.NewSink(func(ctx context.Context, events []event) error {
		r.batch(ctx, events)
		harness.Sleep(ctx, time.Duration(len(events))*s.PerEvent)
		return nil
	})
	sink.Name = s.Pipe + ".sink"
	c.runners = append(c.runners, sink)
	c.subscribed(node.Outlet(c.node, done(s.Pipe)), sink.Name, sink, s, r)
}

// subscribed keeps a stage subscribed: when a subscription has ended, it makes another.
func (c *child) subscribed(outlet stage.Outlet[event], name string, inlet stage.Inlet[event], s stageSpec, r *recorder) {
	c.byInlet[name] = r
	opts := []stage.Option{stage.Temporary, stage.MaxDemand(s.MaxDemand), stage.MinDemand(s.MaxDemand / 2), stage.ResumeWindow(s.Window)}
	if s.AtMostOnce {
		opts = append(opts, stage.AtMostOnce())
	}
	if s.Partition >= 0 {
		opts = append(opts, stage.InPartition(s.Partition))
	}
	c.loops = append(c.loops, func(ctx context.Context) {
		for ctx.Err() == nil {
			sub, err := stage.Subscribe(ctx, outlet, inlet, opts...)
			if err != nil {
				slog.Info("not subscribed", "outlet", outlet.OutletName(), "why", err)
				harness.Sleep(ctx, 50*time.Millisecond)
				continue
			}
			<-sub.Done()
			r.ended(sub, sub.Ending())
		}
	})
}
