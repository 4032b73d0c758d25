//go:build linux

package witness

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
	MaxUnackedBytes           int64
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
type event struct {
	Run, N int
	// Pad makes some larger, so that they fill frames and the windows of connections.
	Pad string `json:",omitempty"`
}

func raw(pipe string) wire.Port[event]  { return wire.JSON[event](pipe + ".raw") }
func done(pipe string) wire.Port[event] { return wire.JSON[event](pipe + ".done") }

// A Pipeline is a source, a gate and sinks, on a node each, and what the ledger of its
// outlets is checked against.
type Pipeline struct {
	// Nodes is the prefix of the names of its nodes. Pipelines with the same one share
	// them.
	Nodes string
	Name  string
	// Dispatcher of its gate: demand, broadcast, or partition with two partitions.
	Dispatcher string
	Sinks      int
	AtMostOnce bool
	// Steady: no process is killed, and no connection is gone for longer than the window.
	Steady    bool
	MaxDemand int
	Window    time.Duration
	// PerEvent is how long a sink takes for an event.
	PerEvent time.Duration
	// MaxUnackedBytes is that of its nodes; 0 for the default. With little, deliveries
	// often wait to be sent.
	MaxUnackedBytes int64
}

// placed says which node runs which stages.
func placed(pipelines []Pipeline) map[string]*nodeSpec {
	nodes := map[string]*nodeSpec{}
	put := func(p Pipeline, name string, s stageSpec) {
		name = p.Nodes + name
		if nodes[name] == nil {
			nodes[name] = &nodeSpec{Name: name, MaxUnackedBytes: p.MaxUnackedBytes}
		}
		nodes[name].Stages = append(nodes[name].Stages, s)
	}
	for _, p := range pipelines {
		base := stageSpec{Pipe: p.Name, Partition: -1, MaxDemand: p.MaxDemand, Window: p.Window}
		source, gate := base, base
		source.Kind, gate.Kind, gate.Dispatcher = "source", "gate", p.Dispatcher
		put(p, "source", source)
		put(p, "gate", gate)
		for i := range p.Sinks {
			sink := base
			sink.Kind, sink.AtMostOnce, sink.PerEvent = "sink", p.AtMostOnce, p.PerEvent
			if p.Dispatcher == "partition" {
				sink.Partition = i
			}
			put(p, "sink"+string(rune('1'+i)), sink)
		}
	}
	return nodes
}
