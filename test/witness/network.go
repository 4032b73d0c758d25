//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/test/harness"
)

// network is the processes and the links between them.
type network struct {
	dir   string
	log   *os.File // of the faults, beside the ledger
	seed  uint64
	nodes []*place

	mu     sync.Mutex
	killed map[incarnation]bool
	faults map[string]int
	broken []string // what should not have happened to processes
}

// place is a node over all its processes. Its striker owns it.
type place struct {
	net  *network
	spec nodeSpec
	link *faultnet.Link
	proc *harness.Process

	mu      sync.Mutex // of what its processes report
	healths []health   // one for each process
	before  map[string]int
	warm    []health // of each process, when it was warm
}

// steady reports whether the node belongs to the pipeline that nothing is lost of.
func (p *place) steady() bool { return p.spec.Name[0] == 's' }

func newNetwork(dir string, seed uint64) (*network, error) {
	log, err := os.Create(filepath.Join(dir, "faults"))
	if err != nil {
		return nil, err
	}
	net := &network{dir: dir, log: log, seed: seed, killed: map[incarnation]bool{}, faults: map[string]int{}}
	all := placed()
	var seeds []string
	for i, name := range slices.Sorted(maps.Keys(all)) {
		link, err := faultnet.Listen()
		if err != nil {
			return net, err
		}
		p := &place{net: net, link: link, before: map[string]int{}, spec: nodeSpec{
			Name: name, Dir: dir, Cluster: "soak", Stages: all[name], Seed: seed + uint64(i), Advertise: link.Addr(),
		}}
		net.nodes = append(net.nodes, p)
		if p.spec.Listen, err = harness.FreeAddress(); err != nil {
			return net, err
		}
		if p.spec.Gossip, err = harness.FreeAddress(); err != nil {
			return net, err
		}
		link.To(p.spec.Listen)
		seeds = append(seeds, p.spec.Gossip)
	}
	for _, p := range net.nodes {
		p.spec.Join = seeds
		if err := p.start(); err != nil {
			return net, err
		}
	}
	return net, nil
}

// close kills what is left, and closes the links.
func (net *network) close() {
	for _, p := range net.nodes {
		if p.proc != nil {
			p.proc.Kill()
		}
		p.link.Close()
	}
	_ = net.log.Close()
}

func (net *network) struck(p *place, fault string) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.faults[fault]++
	fmt.Fprintf(net.log, "%s  %s/%d: %s\n", time.Now().UTC().Format("15:04:05.000"), p.spec.Name, p.spec.Run, fault)
}

func (net *network) wrong(format string, args ...any) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.broken = append(net.broken, fmt.Sprintf(format, args...))
}

// start starts the next process of the node.
func (p *place) start() error {
	p.spec.Run++
	env, err := json.Marshal(p.spec)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said, err := os.Create(filepath.Join(p.net.dir, fmt.Sprintf("%s-%d.stderr", p.spec.Name, p.spec.Run)))
	if err != nil {
		return err
	}
	defer said.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	cmd.Stdout, cmd.Stderr = w, said
	p.proc, err = harness.Start(p.spec.Name, cmd)
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return err
	}
	p.mu.Lock()
	p.healths, p.warm = append(p.healths, health{}), append(p.warm, health{})
	p.mu.Unlock()
	go p.listen(r, p.spec.Run-1, time.Now())
	return nil
}

// warmUp is how long a process may take until it holds what it needs.
const warmUp = 20 * time.Second

// listen takes in what a process reports, until it ends.
func (p *place) listen(r io.ReadCloser, run int, started time.Time) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var h health
		if json.Unmarshal(lines.Bytes(), &h) != nil {
			continue
		}
		p.mu.Lock()
		if h.Heap == 0 {
			h.Heap = p.healths[run].Heap
		}
		p.healths[run] = h
		if p.warm[run].Heap == 0 && time.Since(started) > warmUp {
			p.warm[run] = h
		}
		p.mu.Unlock()
	}
}

// handled adds up what the sinks of the node have handled, over all processes.
func (p *place) handled() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.healths {
		for _, one := range h.Handled {
			n += one
		}
	}
	return n
}

// kill ends the process of the node as a crash does.
func (p *place) kill() {
	p.net.mu.Lock()
	p.net.killed[incarnation{p.spec.Name, p.spec.Run}] = true
	p.net.mu.Unlock()
	p.proc.Kill()
}

// drain tells the process to end, and waits until it has.
func (p *place) drain() {
	p.proc.Signal(syscall.SIGTERM)
	code, err := p.proc.Exit(drainPatience)
	if err != nil {
		p.proc.Signal(syscall.SIGQUIT) // it says where it hangs
		_, _ = p.proc.Exit(5 * time.Second)
		p.kill()
		p.net.wrong("%s/%d did not end within %v of SIGTERM: see its stderr", p.spec.Name, p.spec.Run, drainPatience)
		return
	}
	if code != 0 {
		p.net.wrong("%s/%d ended with code %d after SIGTERM: see its stderr", p.spec.Name, p.spec.Run, code)
	}
}

// drainPatience is more than the drain timeouts of stages and node together.
const drainPatience = 80 * time.Second

// finish drains everything, in the order of the flow.
func (net *network) finish() {
	for _, kind := range []string{"source", "gate", "sink"} {
		var wg sync.WaitGroup
		for _, p := range net.nodes {
			if p.spec.Stages[0].Kind == kind {
				wg.Go(p.drain)
			}
		}
		wg.Wait()
	}
}
