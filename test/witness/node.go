//go:build linux

package witness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/test/harness"
)

// Node is a node over all its processes. One goroutine at a time may use it.
type Node struct {
	// Link is what others reach it through.
	Link *faultnet.Link

	net  *Network
	spec nodeSpec
	proc *harness.Process

	mu     sync.Mutex
	health []*Health // of each process
}

// Health is how a process is.
type Health struct {
	Process string
	// Warm is how it was when it had run for a while, and Last how it was last.
	Warm, Last Vitals
}

// Vitals are what a process reports of itself.
type Vitals struct {
	Goroutines int
	Heap       uint64 // in bytes, after a collection; 0 when there was none yet
	Handled    int    // by its sinks
}

// warmUp is how long a process may take until it holds what it needs.
const warmUp = 20 * time.Second

// String names the node and its process.
func (n *Node) String() string { return n.who().String() }

func (n *Node) who() incarnation { return incarnation{n.spec.Name, n.spec.Run} }

// Name is the name of the node.
func (n *Node) Name() string { return n.spec.Name }

// Start starts the next process of the node.
func (n *Node) Start() error {
	n.spec.Run++
	env, err := json.Marshal(n.spec)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said, err := os.Create(filepath.Join(n.net.dir, fmt.Sprintf("%s-%d.stderr", n.spec.Name, n.spec.Run)))
	if err != nil {
		return err
	}
	defer said.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	cmd.Stdout, cmd.Stderr = w, said
	proc, err := harness.Start(n.String(), cmd)
	if err != nil {
		_ = r.Close()
		return err
	}
	n.proc = proc
	h := &Health{Process: n.String()}
	n.mu.Lock()
	n.health = append(n.health, h)
	n.mu.Unlock()
	go n.listen(r, h)
	return nil
}

// listen takes in what a process reports, until it ends.
func (n *Node) listen(r io.ReadCloser, h *Health) {
	defer r.Close()
	started := time.Now()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var v Vitals
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			continue
		}
		n.mu.Lock()
		if v.Heap == 0 {
			v.Heap = h.Last.Heap
		}
		h.Last = v
		if h.Warm.Heap == 0 && time.Since(started) > warmUp {
			h.Warm = v
		}
		n.mu.Unlock()
	}
}

// Health is how each process of the node was, in their order.
func (n *Node) Health() []Health {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]Health, len(n.health))
	for i, h := range n.health {
		all[i] = *h
	}
	return all
}

// Handled is what the sinks of the node have handled, in all its processes.
func (n *Node) Handled() (sum int) {
	for _, h := range n.Health() {
		sum += h.Last.Handled
	}
	return sum
}

// Alive reports whether the process runs, as it should.
func (n *Node) Alive() bool {
	if !n.proc.Running() {
		n.net.wrong("%v has ended, and nobody told it to: see its stderr", n)
		return false
	}
	return true
}

// Pause stops the process where it is.
func (n *Node) Pause() { n.proc.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (n *Node) Resume() { n.proc.Signal(syscall.SIGCONT) }

// Kill ends the process of the node as a crash does.
func (n *Node) Kill() {
	n.net.mu.Lock()
	n.net.killed[n.who()] = true
	n.net.mu.Unlock()
	n.proc.Kill()
}

// drainPatience is more than the drain timeouts of stages and node together.
const drainPatience = 80 * time.Second

// Drain tells the process to end, and waits until it has.
func (n *Node) Drain() {
	n.awaitReport()
	n.proc.Signal(syscall.SIGTERM)
	code, err := n.proc.Exit(drainPatience)
	switch {
	case err != nil:
		n.proc.Signal(syscall.SIGQUIT) // it says where it hangs
		_, _ = n.proc.Exit(5 * time.Second)
		n.Kill()
		n.net.wrong("%v did not end within %v of SIGTERM: see its stderr", n, drainPatience)
	case code != 0:
		n.net.wrong("%v ended with code %d after SIGTERM: see its stderr", n, code)
	}
}

// awaitReport waits until the process has said something: before that, a signal may
// find nobody who listens to it.
func (n *Node) awaitReport() {
	for begin := time.Now(); n.proc.Running() && time.Since(begin) < drainPatience; time.Sleep(10 * time.Millisecond) {
		if all := n.Health(); all[len(all)-1].Last.Goroutines > 0 {
			return
		}
	}
}
