package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/sluicenet/sluice/internal/mtls"
	"github.com/sluicenet/sluice/internal/registry"
	"github.com/sluicenet/sluice/pkg/stage"
)

// Node is one process on the network. It publishes outlets of this process and
// subscribes to those of others. [New] makes it, [Publish] and [Outlet] say what it
// is for, and stage.Run runs it together with the stages: it starts before them and
// stops when they have ended.
type Node struct {
	config Config
	log    *slog.Logger
	// incarnation grows with every start of the node, and is its epoch as well: a
	// node is one process, started once.
	incarnation uint64
	started     time.Time

	tls      *mtls.Keeper // nil without TLS
	denials  denials
	server   *grpc.Server
	listener net.Listener
	address  string // that others dial
	peers    peers
	cluster  *cluster
	stages   []stage.Inspector
	up       chan struct{} // closed when Start has succeeded
	gone     chan struct{} // closed when everything has stopped
	tuning   tuning

	// ctx is the life of everything that the node carries; it ends when the drain is
	// over or cut.
	ctx      context.Context
	cut      context.CancelCauseFunc
	draining atomic.Bool
	leaveBy  atomic.Int64   // when the drain is to be over, in ns; set before draining is
	inflows  sync.WaitGroup // subscriptions of this node to others
	// background is what goes on until the node is cut.
	background sync.WaitGroup
	sessions   atomic.Uint64
	budget     budget
	guests     guests

	mu         sync.Mutex
	state      nodeState
	left       time.Time // when it began to stop
	ended      int       // how many outlets had ended when somebody looked
	published  map[string]publication
	outlets    map[string][]any // the remote outlets, by name
	followings map[followed]struct{}
	problems   []error          // of Publish and Outlet, said by Start
	version    uint64           // of the catalog
	made       registry.Catalog // as of the version that it was last put together for
}

type nodeState int

const (
	made nodeState = iota
	running
	stopped
)

var _ stage.Host = (*Node)(nil)

// New returns a node that is not started. What is wrong with c is said by Start.
func New(c Config) *Node {
	n := &Node{
		config:     c.withDefaults(),
		published:  map[string]publication{},
		outlets:    map[string][]any{},
		followings: map[followed]struct{}{},
		up:         make(chan struct{}),
		gone:       make(chan struct{}),
		tuning:     newTuning(),
	}
	n.log = n.config.Logger
	n.denials.log = n.log
	n.budget.max, n.budget.log = n.config.MaxBytes, n.log
	n.guests.max = n.config.MaxSubscriptions
	n.started = time.Now()
	n.incarnation = uint64(n.started.UnixMicro())
	n.ctx, n.cut = context.WithCancelCause(context.Background())
	n.peers.n = n
	return n
}

// Name is the logical name of the node.
func (n *Node) Name() string { return n.config.Name }

// Address is where others reach the node's gRPC server; empty until it is up.
func (n *Node) Address() string {
	select {
	case <-n.up:
		return n.address
	default:
		return ""
	}
}

// GossipAddress is where others reach the node's gossip; empty until it is up.
func (n *Node) GossipAddress() string {
	select {
	case <-n.up:
		return n.cluster.gossip
	default:
		return ""
	}
}

// Start brings the node up: it listens, and takes part in the cluster. It does not
// wait for other nodes, whose turn may come later. It returns ErrConfig,
// ErrDuplicateOutlet, ErrNameTaken, or why it could not listen. others are the
// stages that the node shows to operators.
func (n *Node) Start(ctx context.Context, others []stage.Runner) (err error) {
	if err := n.begin(others); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.shut()
		}
	}()
	if err := n.openTLS(); err != nil {
		return err
	}
	n.listener, err = net.Listen("tcp", n.config.Listen)
	if err != nil {
		return fmt.Errorf("node %q: %w", n.config.Name, err)
	}
	bind, err := n.config.gossipBind(n.listener.Addr().(*net.TCPAddr).AddrPort().Addr())
	if err != nil {
		return err
	}
	gossips, err := n.config.gossipAdvertise(ctx, bind)
	if err != nil {
		return err
	}
	address, err := n.reachable(gossips.Addr())
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.address = address // what gossip says first is whole
	n.mu.Unlock()
	n.cluster, err = newCluster(n, bind, gossips)
	if err != nil {
		return fmt.Errorf("node %q: %w", n.config.Name, err)
	}
	n.server = n.newServer()
	go func() { _ = n.server.Serve(n.listener) }()
	if err := n.cluster.start(ctx); err != nil {
		return fmt.Errorf("node %q: %w", n.config.Name, err)
	}
	n.keepTLS()
	n.keepKeyring(n.cluster.ring)
	n.warnOpen(!n.listener.Addr().(*net.TCPAddr).IP.IsLoopback(), !bind.Addr().IsLoopback())
	n.checkOwn()
	context.AfterFunc(ctx, n.drain)
	close(n.up)
	n.log.Info("node started", "grpc", n.address, "gossip", n.cluster.gossip, "cluster", n.config.Cluster)
	return nil
}

func (n *Node) begin(others []stage.Runner) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != made {
		return fmt.Errorf("node %q: %w", n.config.Name, stage.ErrAlreadyRun)
	}
	if err := errors.Join(n.problems...); err != nil {
		return err
	}
	if err := n.config.check(); err != nil {
		return err
	}
	n.state = running
	for _, o := range others {
		if i, ok := o.(stage.Inspector); ok {
			n.stages = append(n.stages, i)
		}
	}
	return nil
}

// reachable is the address that others dial, where they reach the gossip at ip.
func (n *Node) reachable(ip netip.Addr) (string, error) {
	if a := n.config.Advertise; a != "" {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return "", fmt.Errorf("%w: Advertise %q: %w", ErrConfig, a, err)
		}
		return a, nil
	}
	tcp := n.listener.Addr().(*net.TCPAddr)
	if !tcp.IP.IsUnspecified() {
		return tcp.String(), nil
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(tcp.Port)), nil
}

// Stop finishes what the node carries, says goodbye to the cluster and stops. It is
// called when the stages have ended: what is left is to hear from the other ends
// that everything has arrived. When ctx ends, it cuts what is left, and says so.
// Called again, it waits for the first call, as long as its own ctx allows.
func (n *Node) Stop(ctx context.Context) error {
	if first, running := n.leave(); !first {
		select {
		case <-n.gone:
		case <-ctx.Done():
		}
		return nil
	} else if !running {
		n.shut()
		return nil
	}
	n.drain()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		n.inflows.Wait()
		for _, p := range n.publications() {
			p.wait(n.ctx)
		}
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("node %q: %w: subscriptions were cut", n.config.Name, stage.ErrDrainTimeout)
		n.log.Warn("subscriptions were cut", "why", context.Cause(ctx))
	}
	n.shut()
	<-idle
	return err
}

// drain says that the node is about to leave: the stages have been told to end. It
// tells the cluster and its subscribers, takes no new ones, and those whose connection is broken have a moment left to
// come back, since nobody waits for them as long as their window.
func (n *Node) drain() {
	by := time.Now().Add(stage.DefaultDrainTimeout).UnixNano()
	if !n.leaveBy.CompareAndSwap(0, by) {
		return
	}
	n.draining.Store(true)
	n.cluster.announce()
	for _, p := range n.publications() {
		p.hurry()
	}
}

// remaining is how long the drain may still take.
func (n *Node) remaining() time.Duration {
	return max(time.Until(time.Unix(0, n.leaveBy.Load())), 0)
}

// leave books that the node stops: it takes no new subscriptions, of its own or of
// others. It reports whether this is the first call, and whether the node has run.
func (n *Node) leave() (first, ran bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.left.IsZero() {
		return false, false
	}
	n.left = time.Now()
	ran = n.state == running
	n.state = stopped
	return true, ran
}

// leftAt is when the node began to stop, or zero.
func (n *Node) leftAt() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// shut stops everything at once.
func (n *Node) shut() {
	n.leave()
	n.cut(errStopped)
	if n.cluster != nil {
		n.cluster.stop()
	}
	if n.server != nil {
		n.stopServer()
	} else if n.listener != nil {
		_ = n.listener.Close()
	}
	for _, p := range n.publications() {
		p.close()
	}
	n.inflows.Wait()
	n.background.Wait()
	n.peers.close()
	close(n.gone)
}

var errStopped = errors.New("the node is stopped")

// stopServer ends the server. Its handlers watch n.ctx, so waiting for them is
// short; a call of somebody else's that does not end is cut.
func (n *Node) stopServer() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.server.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
		n.server.Stop()
		<-done
	}
}

// Run runs the node alone, until ctx ends.
func (n *Node) Run(ctx context.Context) error { return stage.Run(ctx, n) }

// publications returns what the node offers.
func (n *Node) publications() []publication {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]publication, 0, len(n.published))
	for _, p := range n.published {
		all = append(all, p)
	}
	return all
}

// catalog is what the node offers now. It is put together once for every version, since
// it is asked for often and may be large; nobody changes it.
func (n *Node) catalog() registry.Catalog {
	n.mu.Lock()
	version, made := n.version, n.made
	n.mu.Unlock()
	if made.Version == version && made.Node != "" {
		return made
	}
	c := registry.Catalog{Node: n.config.Name, Incarnation: n.incarnation, Version: version}
	for _, p := range n.publications() {
		c.Outlets = append(c.Outlets, p.offer())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.version == version {
		n.made = c
	}
	return c
}

// hasEnded reports whether an outlet of the node has ended, also before that is news.
func (n *Node) hasEnded(outlet string) bool {
	n.mu.Lock()
	p := n.published[outlet]
	n.mu.Unlock()
	if p == nil {
		return false
	}
	select {
	case <-p.done():
		return true
	default:
		return false
	}
}

// noticeEnds makes it news when an outlet of the node has ended: it stays in the
// catalog, as ended.
func (n *Node) noticeEnds() {
	ended := 0
	for _, p := range n.publications() {
		select {
		case <-p.done():
			ended++
		default:
		}
	}
	n.mu.Lock()
	changed := ended != n.ended
	if changed {
		n.ended = ended
		n.version++
	}
	n.mu.Unlock()
	if changed {
		n.cluster.announce()
	}
}
