//go:build linux

package main

import (
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
)

// A nodeSpec is what a child process is told to be.
type nodeSpec struct {
	Name string
	// Run counts the processes of this name, from 1.
	Run                       int
	Dir                       string // of the ledger
	Listen, Advertise, Gossip string
	Join                      []string
	Cluster                   string
	Stages                    []stageSpec
	Seed                      uint64
}

// A stageSpec is one stage of a node. Each pipeline is source, gate, sink.
type stageSpec struct {
	Pipe       string
	Kind       string // source, gate or sink
	Dispatcher string // of a gate: demand, broadcast or partition
	Partition  int    // of a sink; negative for none
	AtMostOnce bool
	MaxDemand  int
	Window     time.Duration
	PerEvent   time.Duration // that a sink takes
}

// event is numbered by who emits it: by the process that it comes from, and from 1.
type event struct{ Run, N int }

func raw(pipe string) wire.Port[event]  { return wire.JSON[event](pipe + ".raw") }
func done(pipe string) wire.Port[event] { return wire.JSON[event](pipe + ".done") }

// A pipeline is what the ledger is checked against.
type pipeline struct {
	name       string
	dispatcher string // of its gate
	sinks      int
	atMostOnce bool
	// steady: no process is killed, and no connection is gone for longer than the window.
	steady    bool
	maxDemand int
	window    time.Duration
	perEvent  time.Duration
}

var pipelines = []pipeline{
	{name: "steady", dispatcher: "demand", sinks: 1, steady: true, maxDemand: 1000, window: 30 * time.Second, perEvent: 200 * time.Microsecond},
	{name: "demand", dispatcher: "demand", sinks: 2, maxDemand: 100, window: 3 * time.Second, perEvent: time.Millisecond},
	{name: "broadcast", dispatcher: "broadcast", sinks: 2, maxDemand: 100, window: 3 * time.Second, perEvent: time.Millisecond},
	{name: "partition", dispatcher: "partition", sinks: 2, maxDemand: 100, window: 3 * time.Second, perEvent: time.Millisecond},
	{name: "atmostonce", dispatcher: "demand", sinks: 2, atMostOnce: true, maxDemand: 100, window: 3 * time.Second, perEvent: time.Millisecond},
}

// placed says which node runs which stages: the steady pipeline has nodes of its own,
// the others share theirs.
func placed() map[string][]stageSpec {
	nodes := map[string][]stageSpec{}
	for _, p := range pipelines {
		group := "x-"
		if p.steady {
			group = "s-"
		}
		base := stageSpec{Pipe: p.name, Partition: -1, MaxDemand: p.maxDemand, Window: p.window}
		source, gate := base, base
		source.Kind, gate.Kind, gate.Dispatcher = "source", "gate", p.dispatcher
		nodes[group+"source"] = append(nodes[group+"source"], source)
		nodes[group+"gate"] = append(nodes[group+"gate"], gate)
		for i := range p.sinks {
			sink := base
			sink.Kind, sink.AtMostOnce, sink.PerEvent = "sink", p.atMostOnce, p.perEvent
			if p.dispatcher == "partition" {
				sink.Partition = i
			}
			name := group + "sink" + string(rune('1'+i))
			nodes[name] = append(nodes[name], sink)
		}
	}
	return nodes
}
