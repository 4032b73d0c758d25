package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluicenet/sluice/internal/faultnet"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ints = wire.JSON[int]("numbers")

// patience is how long tests wait for what is to happen.
const patience = 20 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 5*time.Millisecond, what)
}

// testNode is a node that gossips fast. Its log is seen with SLUICE_TEST_LOG=1.
func testNode(name string, c Config) *Node {
	c.Name = name
	if c.Cluster == "" {
		c.Cluster = "test"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
		if os.Getenv("SLUICE_TEST_LOG") != "" {
			c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
	}
	n := New(c)
	n.tuning.slack = 300 * time.Millisecond
	n.tuning.reload = 20 * time.Millisecond
	n.tuning.settle, n.tuning.patience = 200*time.Millisecond, 500*time.Millisecond
	n.tuning.gossip = func(m *memberlist.Config) {
		m.GossipInterval, m.ProbeInterval, m.ProbeTimeout = 10*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
		m.SuspicionMult = 2
	}
	return n
}

// kill ends a node as the end of its process would: nobody is told anything.
func (n *Node) kill() {
	n.leave()
	n.cut(errors.New("killed"))
	n.server.Stop()
	n.cluster.once.Do(func() {
		<-n.cluster.done
		_ = n.cluster.list.Shutdown()
	})
	n.shut()
}

// program is a node and its stages, which run.
type program struct {
	t    *testing.T
	n    *Node
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func start(t *testing.T, n *Node, stages ...stage.Runner) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{t: t, n: n, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = stage.Run(ctx, append([]stage.Runner{n}, stages...)...)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-p.done:
		case <-time.After(2 * patience):
			t.Errorf("node %q does not stop:\n%s", n.Name(), n.what())
		}
	})
	select {
	case <-n.up:
	case <-p.done:
		require.NoError(t, p.err)
	case <-time.After(patience):
		require.Fail(t, "the node does not start")
	}
	return p
}

// wait waits for the program to end by itself.
func (p *program) wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(2 * patience):
		p.t.Log(p.n.what())
		require.Fail(p.t, "the program does not end", p.n.Name())
		return nil
	}
}

// what says what a node is doing.
func (n *Node) what() string {
	var b strings.Builder
	for _, i := range n.inboundAll() {
		fmt.Fprintln(&b, n.Name(), "in: ", i.row())
	}
	for _, p := range n.publications() {
		for _, row := range p.rows() {
			fmt.Fprintln(&b, n.Name(), "out:", row)
		}
	}
	for _, s := range n.stages {
		fmt.Fprintf(&b, "%+v\n", s.Inspect())
	}
	return b.String()
}

// numbers is a source of 0 to n-1.
func numbers(n int) *stage.Source[int] {
	next := 0
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		events := make([]int, 0, demand)
		for len(events) < demand && next < n {
			events = append(events, next)
			next++
		}
		if next == n {
			return events, io.EOF
		}
		return events, nil
	})
}

// endless is a source that never ends, of 0 and up.
func endless() *stage.Source[int] {
	next := 0
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		events := make([]int, demand)
		for i := range events {
			events[i] = next
			next++
		}
		return events, nil
	})
}

// pushed is a source of what push is called with.
func pushed() (source *stage.Source[int], push func(events ...int)) {
	c := make(chan int, 1000)
	return stage.FromChan(c), func(events ...int) {
		for _, e := range events {
			c <- e
		}
	}
}

// record is what a sink has seen.
type record struct {
	mu   sync.Mutex
	seen []int
}

func (r *record) add(events []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, events...)
}

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *record) all() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *record) sink(name string) *stage.Sink[int] {
	s := stage.NewSink(func(_ context.Context, events []int) error {
		r.add(events)
		return nil
	})
	s.Name = name
	return s
}

// inOrder checks that 0 to n-1 were seen, each once and in order.
func (r *record) inOrder(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, counted(r.all(), n))
}

func counted(seen []int, n int) error {
	for i, e := range seen {
		if e != i {
			return fmt.Errorf("event %d came as number %d", e, i)
		}
	}
	if len(seen) != n {
		return fmt.Errorf("%d of %d events came", len(seen), n)
	}
	return nil
}

// once checks that 0 to n-1 were seen, each once and in any order.
func once(t *testing.T, n int, records ...*record) {
	t.Helper()
	var all []int
	for _, r := range records {
		all = append(all, r.all()...)
	}
	slices.Sort(all)
	require.NoError(t, counted(all, n))
}

// linked is a node that others reach through a link.
func linked(t *testing.T, name string, c Config) (*Node, *faultnet.Link) {
	t.Helper()
	l, err := faultnet.Listen()
	require.NoError(t, err)
	t.Cleanup(l.Close)
	c.Advertise = l.Addr()
	n := testNode(name, c)
	return n, l
}

// through starts a linked node and lets its link lead to it.
func through(t *testing.T, n *Node, l *faultnet.Link, stages ...stage.Runner) *program {
	t.Helper()
	p := start(t, n, stages...)
	l.To(n.listener.Addr().String())
	return p
}

// join is the Join of who is to find n.
func join(n *Node) []string { return []string{n.GossipAddress()} }
