package node

import (
	"context"
	"fmt"
	"log"
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
	// gossip is where the gossip of this node is reached, and ip the address in it.
	gossip, ip string
	wake       chan struct{}
	reconciles bool
	done       chan struct{} // reconcile has ended
	once       sync.Once

	newsMu sync.Mutex
	news   map[string]news // the latest of each member

	mu       sync.Mutex
	members  map[string]*member // by gossip name, the node itself excluded
	catalogs registry.State
	changed  chan struct{} // closed and replaced whenever the view changes
	dirty    bool          // the own digest is to be gossiped
}

// news is what a callback was told, copied.
type news struct {
	address string
	meta    []byte
	gone    bool
}

// member is another node.
type member struct {
	name, node    string
	address       string // of its gRPC server
	gossip, zone  string
	incarnation   uint64
	version       uint64 // of its catalog, as gossiped
	fetched       uint64 // of its catalog, as held
	fetching      bool
	draining      bool
	gone          bool
	since         time.Time
	conflict      time.Time // since when another living node has its name, or zero
	conflictKnown bool      // it was said
}

const (
	// forgetAfter is how long a node that is gone is still shown.
	forgetAfter = 10 * time.Minute
	// conflictAfter is how long two nodes have one name before that is said: a node
	// that was restarted looks like it until gossip knows that the old one is gone.
	conflictAfter = 15 * time.Second
)

func newCluster(ctx context.Context, n *Node, bind netip.AddrPort) (*cluster, error) {
	c := &cluster{
		n: n, wake: make(chan struct{}, 1), done: make(chan struct{}),
		members: map[string]*member{}, changed: make(chan struct{}),
	}
	conf := memberlist.DefaultLANConfig()
	// A name of its own for every start: a node that comes back is never taken for
	// what it was before. The logical name is in the digest.
	conf.Name = n.config.Name + "-" + strconv.FormatUint(n.incarnation, 36)
	conf.Label = n.config.Cluster
	n.tuning.gossip(conf)
	conf.TCPTimeout = joinTimeout // a call of ours waits for it, and Stop for the call
	conf.Delegate, conf.Events = &delegate{n}, &events{c}
	conf.Logger = gossipLogger(n.log)
	conf.LogOutput = nil
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
	list, err := create(ctx, conf, n.config.GossipAdvertise)
	if err != nil {
		_ = transport.Shutdown()
		return nil, err
	}
	c.list = list
	// Read here, before anything else uses the list: what it gives out is shared with
	// its own goroutines.
	own := list.LocalNode()
	c.gossip, c.ip = own.Address(), own.Addr.String()
	return c, nil
}

// listenGossip opens the ports of gossip, which have one number. It is done here since
// memberlist forgets what is to be advertised where it picks the number itself.
func listenGossip(bind netip.AddrPort, logger *log.Logger) (t *memberlist.NetTransport, err error) {
	for range 10 {
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: logger,
		})
		// A number that is free for TCP may be taken for UDP.
		if err == nil || bind.Port() != 0 {
			break
		}
	}
	return t, err
}

// create starts memberlist, which then advertises what advertise says, if anything.
func create(ctx context.Context, conf *memberlist.Config, advertise string) (*memberlist.Memberlist, error) {
	if advertise != "" {
		all, err := resolve(ctx, advertise)
		if err != nil {
			return nil, fmt.Errorf("%w: GossipAdvertise %q: %w", ErrConfig, advertise, err)
		}
		at := all[0]
		for _, a := range all {
			if bound, err := netip.ParseAddr(conf.BindAddr); err == nil && bound.Is4() == a.Addr().Is4() {
				at = a // of the family that it is bound to
				break
			}
		}
		conf.AdvertiseAddr = at.Addr().String()
		if at.Port() != 0 {
			conf.AdvertisePort = int(at.Port())
		}
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w: set GossipAdvertise to an address of this machine if it found none", err)
	}
	return list, nil
}

// start joins the others. It waits a little for the first answer, since then it can
// say that the name of the node is taken; others may well come later.
func (c *cluster) start(ctx context.Context) error {
	c.mark()
	c.reconciles = true
	go c.reconcile()
	if len(c.n.config.Join) == 0 {
		return nil
	}
	joined := make(chan struct{})
	c.n.background.Go(func() {
		c.join()
		close(joined)
		c.rejoin()
	})
	select {
	case <-joined:
	case <-time.After(joinTimeout):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.nameTaken(ctx)
}

// join tries all seeds once, at the same time: one that does not answer holds up
// nobody.
func (c *cluster) join() {
	ctx, cancel := context.WithTimeout(c.n.ctx, joinTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, seed := range c.n.config.Join {
		wg.Go(func() {
			all, err := resolve(ctx, seed)
			if err != nil {
				c.n.log.Warn("cannot resolve a node to join", "address", seed, "why", err)
				return
			}
			for _, a := range all {
				if a.String() == c.gossip || ctx.Err() != nil {
					continue
				}
				if _, err := c.list.Join([]string{a.String()}); err != nil {
					c.n.log.Debug("cannot join", "address", a, "why", err)
				}
			}
		})
	}
	wg.Wait()
}

// rejoin goes on trying: a seed may start later, and a split that has lasted longer
// than gossip remembers heals only when somebody calls.
func (c *cluster) rejoin() {
	wait := time.Second
	for {
		select {
		case <-time.After(wait):
		case <-c.n.ctx.Done():
			return
		}
		c.join()
		if c.list.NumMembers() > 1 {
			wait = rejoinEvery
		}
	}
}

// nameTaken reports that another living node has the name of this one. Gossip may
// still show a process that is gone, so the other one is asked.
func (c *cluster) nameTaken(ctx context.Context) error {
	c.absorb()
	c.mu.Lock()
	var same []member
	for _, m := range c.members {
		if !m.gone && m.node == c.n.config.Name {
			same = append(same, *m)
		}
	}
	c.mu.Unlock()
	for _, m := range same {
		if got, err := c.n.fetchCatalog(ctx, m.address); err == nil && got.Incarnation == m.incarnation {
			return fmt.Errorf("%w: %q is also at %s: names are unique in a cluster", ErrNameTaken, m.node, m.address)
		}
	}
	return nil
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
		c.mu.Lock()
		dirty := c.dirty
		c.dirty = false
		c.mu.Unlock()
		if dirty {
			if err := c.list.UpdateNode(time.Second); err != nil {
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

// absorb takes in the news.
func (c *cluster) absorb() {
	c.newsMu.Lock()
	all := c.news
	c.news = nil
	c.newsMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, x := range all {
		c.take(name, x)
	}
	c.conflicts()
	if len(all) > 0 {
		c.tell()
	}
}

func (c *cluster) take(name string, x news) {
	m := c.members[name]
	if x.gone {
		if m != nil && !m.gone {
			m.gone, m.since = true, time.Now()
			c.n.log.Info("node gone", "other", m.node, "said_goodbye", m.draining)
		}
		return
	}
	d, ok := readDigest(x.meta)
	if !ok {
		return
	}
	if m == nil || m.gone {
		m = &member{name: name, since: time.Now()}
		c.members[name] = m
		c.n.log.Info("node found", "other", d.GetNode(), "grpc", d.GetAddress())
	}
	m.node, m.address, m.gossip, m.zone = d.GetNode(), d.GetAddress(), x.address, d.GetZone()
	m.incarnation, m.version, m.draining = d.GetIncarnation(), d.GetCatalogVersion(), d.GetDraining()
}

// conflicts looks for living nodes that have the same logical name. The lock is held.
func (c *cluster) conflicts() {
	living := map[string]int{c.n.config.Name: 1}
	// Of two starts at one address the older one is gone, whatever gossip knows by now.
	newest := map[string]uint64{c.n.address: c.n.incarnation}
	for _, m := range c.members {
		newest[m.address] = max(newest[m.address], m.incarnation)
	}
	replaced := func(m *member) bool { return m.gone || m.incarnation < newest[m.address] }
	for _, m := range c.members {
		if !replaced(m) {
			living[m.node]++
		}
	}
	for _, m := range c.members {
		switch {
		case replaced(m) || living[m.node] == 1:
			m.conflict = time.Time{}
		case m.conflict.IsZero():
			m.conflict = time.Now()
		case !m.conflictKnown && time.Since(m.conflict) > conflictAfter:
			m.conflictKnown = true
			c.n.log.Warn("two nodes have one name", "name", m.node, "at", m.address, "code", "SL0204",
				"hint", "names are unique in a cluster: stop one of them")
		}
	}
}

// fetch gets the catalogs that have changed, each in a goroutine of its own: a node
// that does not answer keeps nobody waiting.
func (c *cluster) fetch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.gone || m.fetching || m.fetched == m.version {
			continue
		}
		m.fetching = true
		address, version := m.address, m.version
		c.n.background.Go(func() {
			got, err := c.n.fetchCatalog(c.n.ctx, address)
			c.mu.Lock()
			defer c.mu.Unlock()
			m.fetching = false
			if err != nil {
				c.n.log.Debug("cannot fetch a catalog", "other", m.node, "why", err)
				return
			}
			if got.Node != m.node || got.Incarnation != m.incarnation {
				return // the address belongs to somebody else by now
			}
			m.fetched = max(version, got.Version)
			if m.version < m.fetched {
				m.version = m.fetched
			}
			c.catalogs.Put(got)
			c.tell()
		})
	}
}

// prune forgets who has been gone for long, and closes connections that nobody needs.
func (c *cluster) prune() {
	wanted := map[string]bool{}
	for _, i := range c.n.inboundAll() {
		wanted[i.peer()] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.members {
		if !m.gone {
			wanted[m.address] = true
		} else if time.Since(m.since) > forgetAfter || c.back(m) {
			delete(c.members, name)
			if !c.named(m.node) {
				c.catalogs.Forget(m.node)
			}
		}
	}
	c.n.peers.retain(wanted)
}

// back reports whether a later start of the node of m is there. The lock is held.
func (c *cluster) back(m *member) bool {
	for _, o := range c.members {
		if o.node == m.node && !o.gone && o.incarnation > m.incarnation {
			return true
		}
	}
	return m.node == c.n.config.Name && m.incarnation < c.n.incarnation
}

// named reports whether any member has that logical name. The lock is held.
func (c *cluster) named(node string) bool {
	for _, m := range c.members {
		if m.node == node {
			return true
		}
	}
	return false
}

// tell lets those look again who wait for the view to change. It is called with
// the lock held.
func (c *cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// view returns the members, and a channel that is closed when that has changed.
func (c *cluster) view() (all []member, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		all = append(all, *m)
	}
	return all, c.changed
}

// publisher is where an outlet is found.
type publisher struct{ node, address string }

// find returns who offers an outlet, the node itself included, in the order in which
// subscriber should try them, and a channel that is closed when that may have changed.
func (c *cluster) find(outlet, subscriber string) (found []publisher, changed <-chan struct{}) {
	own := c.n.catalog()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalogs.Put(own)
	alive := []registry.Candidate{{Node: c.n.config.Name, Zone: c.n.config.Zone}}
	addresses := map[string]string{c.n.config.Name: c.n.address}
	for _, m := range c.members {
		if m.gone || m.draining || m.node == c.n.config.Name {
			continue
		}
		alive = append(alive, registry.Candidate{Node: m.node, Zone: m.zone})
		addresses[m.node] = m.address
	}
	for _, o := range c.catalogs.Rank(outlet, subscriber, alive, c.n.config.Zone) {
		found = append(found, publisher{o.Node, addresses[o.Node]})
	}
	return found, c.changed
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
			return leaveTimeout
		}
	}
	return 100 * time.Millisecond
}

// delegate gives memberlist the digest. The node has no other use for its messages.
type delegate struct{ n *Node }

func (d *delegate) NodeMeta(limit int) []byte         { return d.n.digest(limit) }
func (d *delegate) NotifyMsg([]byte)                  {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte   { return nil }
func (d *delegate) LocalState(bool) []byte            { return nil }
func (d *delegate) MergeRemoteState(_ []byte, _ bool) {}

// events copies what memberlist says about others. It runs under memberlist's lock.
type events struct{ c *cluster }

func (e *events) NotifyJoin(m *memberlist.Node)   { e.queue(m, false) }
func (e *events) NotifyUpdate(m *memberlist.Node) { e.queue(m, false) }
func (e *events) NotifyLeave(m *memberlist.Node)  { e.queue(m, true) }

func (e *events) queue(m *memberlist.Node, gone bool) {
	own := e.c.n.config.Name + "-" + strconv.FormatUint(e.c.n.incarnation, 36)
	if m.Name == own {
		return
	}
	x := news{
		meta: append([]byte(nil), m.Meta...), gone: gone,
		address: net.JoinHostPort(m.Addr.String(), strconv.Itoa(int(m.Port))),
	}
	e.c.newsMu.Lock()
	if e.c.news == nil {
		e.c.news = map[string]news{}
	}
	e.c.news[m.Name] = x
	e.c.newsMu.Unlock()
	e.c.poke()
}
