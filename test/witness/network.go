//go:build linux

package witness

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/test/harness"
)

// Network is the processes of some pipelines, and the links between them.
type Network struct {
	Nodes []*Node

	dir       string
	pipelines []Pipeline

	mu     sync.Mutex
	killed map[incarnation]bool
	wrongs []string // what should not have happened to processes
}

// Start starts the nodes of pipelines. Their ledger, and what they say, are in dir. The
// network has to be closed, also when there is an error.
func Start(dir string, seed uint64, pipelines ...Pipeline) (*Network, error) {
	net := &Network{dir: dir, pipelines: pipelines, killed: map[incarnation]bool{}}
	all := placed(pipelines)
	var seeds []string
	for i, name := range slices.Sorted(maps.Keys(all)) {
		link, err := faultnet.Listen()
		if err != nil {
			return net, err
		}
		n := &Node{net: net, Link: link, spec: *all[name]}
		n.spec.Dir, n.spec.Cluster, n.spec.Seed, n.spec.Advertise = dir, "witness", seed+uint64(i), link.Addr()
		net.Nodes = append(net.Nodes, n)
		if n.spec.Listen, err = harness.FreeAddress(); err != nil {
			return net, err
		}
		if n.spec.Gossip, err = harness.FreeAddress(); err != nil {
			return net, err
		}
		link.To(n.spec.Listen)
		seeds = append(seeds, n.spec.Gossip)
	}
	for _, n := range net.Nodes {
		n.spec.Join = seeds
		if err := n.Start(); err != nil {
			return net, err
		}
	}
	return net, nil
}

// Close kills what is left, and closes the links.
func (net *Network) Close() {
	for _, n := range net.Nodes {
		if n.proc != nil {
			n.proc.Kill()
		}
		n.Link.Close()
	}
}

// Node returns the node of that name.
func (net *Network) Node(name string) *Node {
	for _, n := range net.Nodes {
		if n.spec.Name == name {
			return n
		}
	}
	return nil
}

// Kills is how many processes were killed.
func (net *Network) Kills() int {
	net.mu.Lock()
	defer net.mu.Unlock()
	return len(net.killed)
}

func (net *Network) wrong(format string, args ...any) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.wrongs = append(net.wrongs, fmt.Sprintf(format, args...))
}

// Wrongs is what should not have happened to processes: ends that nobody asked for, and
// drains that took too long.
func (net *Network) Wrongs() []string {
	net.mu.Lock()
	defer net.mu.Unlock()
	return slices.Clone(net.wrongs)
}

// Drain drains everything, in the order of the flow.
func (net *Network) Drain() {
	for _, kind := range []string{"source", "gate", "sink"} {
		var wg sync.WaitGroup
		for _, n := range net.Nodes {
			if n.spec.Stages[0].Kind == kind {
				wg.Go(n.Drain)
			}
		}
		wg.Wait()
	}
}

// Check reads the ledger and holds it to what is promised, when everything has ended.
// For each pipeline there are the outlets of its source and of its gate.
func (net *Network) Check() ([]*Tally, error) {
	var tallies []*Tally
	for _, p := range net.pipelines {
		raw, done, err := readHops(net.dir, p, net.killed)
		if err != nil {
			return nil, err
		}
		tallies = append(tallies, check(raw), check(done))
	}
	return tallies, nil
}
