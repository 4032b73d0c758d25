package node

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/sluicenet/sluice/internal/registry"
)

// cluster is a node's view of the others: who is there, and what they offer.
//
// Gossip is a hint. memberlist's callbacks run under its lock, so all they do is to
// copy what they are told into news and to wake up reconcile, the one goroutine
// that owns the view. Catalogs are fetched over gRPC when a digest says that they
// have changed.
type cluster struct {
	n    *Node
	list *memberlist.Memberlist
	ring *memberlist.Keyring // nil where gossip is not encrypted
	// gossip is where the gossip of this node is reached.
	gossip     string
	wake       chan struct{}
	reconciles bool
	done       chan struct{} // reconcile has ended
	once       sync.Once

	newsMu sync.Mutex
	news   map[string]news // the latest of each member

	mu       sync.Mutex
	members  map[string]*member // by gossip name, the node itself excluded
	catalogs registry.State
	held     uint64            // the version of the node's own in it
	changed  chan struct{}     // closed and replaced whenever the view changes
	dirty    bool              // the own digest is to be gossiped
	met      map[string]string // gossip addresses of nodes to call when they are missed, by logical name
	own      clash

	complaints sync.Map // the complaint of each warning that is not settled
}

// outward picks the address that others are told by a node that is bound to all
// interfaces: one of the family that it is bound to, IPv4 rather than IPv6, and loopback
// only when this machine has nothing else. memberlist would pick a private one, whatever
// its family, or none.
func outward(bind netip.Addr, all []netip.Addr) netip.Addr {
	pick := netip.IPv6Loopback()
	if bind.Is4() {
		pick = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	for _, a := range all {
		switch {
		case !a.IsGlobalUnicast() || bind.Is4() && !a.Is4():
		case pick.IsLoopback() || a.Is4() && !pick.Is4():
			pick = a
		}
	}
	return pick
}

// interfaceAddresses are the addresses of this machine.
func interfaceAddresses() (all []netip.Addr) {
	found, _ := net.InterfaceAddrs() // none are as good as an error
	for _, a := range found {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr().Unmap())
		}
	}
	return all
}

func newCluster(n *Node, bind, advertise netip.AddrPort) (*cluster, error) {
	c := &cluster{
		n: n, wake: make(chan struct{}, 1), done: make(chan struct{}),
		members: map[string]*member{}, met: map[string]string{}, changed: make(chan struct{}),
	}
	conf := memberlist.DefaultLANConfig()
	// A name of its own for every start: a node that comes back is never taken for
	// what it was before. The logical name is in the digest.
	conf.Name = n.config.Name + "-" + strconv.FormatUint(n.incarnation, 36)
	conf.Label = n.config.Cluster
	conf.TCPTimeout = joinTimeout // a call of ours waits for it, and Stop for the call
	conf.Delegate, conf.Events = &delegate{n}, &events{c}
	conf.Logger = gossipLogger(n)
	conf.LogOutput = nil
	ring, err := n.openKeyring()
	if err != nil {
		return nil, err
	}
	c.ring, conf.Keyring = ring, ring
	transport, err := listenGossip(bind, conf.Logger)
	if err != nil {
		return nil, fmt.Errorf("gossip on %v: %w", bind, err)
	}
	conf.Transport = transport
	conf.BindAddr, conf.BindPort = bind.Addr().String(), int(bind.Port())
	if conf.BindPort == 0 {
		conf.BindPort = transport.GetAutoBindPort()
	}
	// Without this, a node on a port of its own advertises the default port.
	conf.AdvertisePort = conf.BindPort
	conf.AdvertiseAddr = advertise.Addr().String()
	if advertise.Port() != 0 {
		conf.AdvertisePort = int(advertise.Port())
	}
	n.tuning.gossip(conf)
	list, err := memberlist.Create(conf)
	if err != nil {
		_ = transport.Shutdown()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	c.list = list
	// Read here, before anything else uses the list: what it gives out is shared with
	// its own goroutines.
	own := list.LocalNode()
	c.gossip = own.Address()
	return c, nil
}

// reconcile owns the view: it takes in what gossip said, fetches catalogs and
// gossips the node's own digest.
func (c *cluster) reconcile() {
	defer close(c.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c.absorb()
		c.fetch()
		c.prune()
		c.n.noticeEnds()
		c.n.noticeUnrun()
		c.mu.Lock()
		dirty := c.dirty
		c.dirty = false
		c.mu.Unlock()
		if dirty {
			if err := c.list.UpdateNode(c.n.tuning.goodbye / 2); err != nil {
				c.n.log.Debug("the digest is not gossiped yet", "why", err)
				c.mark()
			}
		}
		select {
		case <-c.wake:
		case <-tick.C:
		case <-c.n.ctx.Done():
			return
		}
	}
}

// mark says that the own digest has changed.
func (c *cluster) mark() {
	c.mu.Lock()
	c.dirty = true
	c.mu.Unlock()
}

// announce says that the own digest has changed, and lets local subscribers look.
func (c *cluster) announce() {
	c.mark()
	c.mu.Lock()
	c.tell()
	c.mu.Unlock()
	c.poke()
}

func (c *cluster) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop says goodbye and shuts gossip down. Leaving after a shutdown panics, and so
// both are done here, once.
func (c *cluster) stop() {
	c.once.Do(func() {
		if c.reconciles {
			<-c.done
		}
		c.introduce()
		patience := c.goodbye()
		c.mu.Lock()
		dirty := c.dirty
		c.mu.Unlock()
		if dirty {
			// That it leaves on purpose is in the digest. The goodbye replaces a digest
			// that has not gone out.
			_ = c.list.UpdateNode(patience)
		}
		if err := c.list.Leave(patience); err != nil {
			c.n.log.Debug("nobody heard the goodbye", "why", err)
		}
		if err := c.list.Shutdown(); err != nil {
			c.n.log.Warn("gossip did not stop well", "why", err)
		}
	})
}

// goodbye is how long the goodbye may take. Nodes that are about to leave as well
// pass it on to nobody, so that waiting for it would be in vain.
func (c *cluster) goodbye() time.Duration {
	c.absorb()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if !m.gone && !m.draining {
			return c.n.tuning.goodbye
		}
	}
	return 100 * time.Millisecond
}
