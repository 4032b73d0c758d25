package node

import "time"

// news is what a callback was told, copied.
type news struct {
	address string
	meta    []byte
	gone    bool
	left    bool // it has said goodbye
}

// member is another node.
type member struct {
	name, node   string
	address      string // of its gRPC server
	gossip, zone string
	incarnation  uint64
	version      uint64 // of its catalog, as gossiped
	fetched      uint64 // of its catalog, as held
	fetching     bool
	unanswered   int // how often in succession it did not say what it offers
	draining     bool
	gone         bool
	since        time.Time
	clash
}

// forgetAfter is how long a node that is gone is still shown.
const forgetAfter = 10 * time.Minute

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
			m.draining = m.draining || x.left
			// Where another node has its name, that one is who was met.
			if m.draining && c.met[m.node] == m.gossip {
				delete(c.met, m.node) // it has left on purpose: nobody calls it back
			}
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
	c.meet(m)
}

// prune forgets who has been gone for long and has no stream open with the node, and closes connections that nobody needs.
func (c *cluster) prune() {
	wanted := map[string]bool{}
	for _, i := range c.n.inboundAll() {
		wanted[i.peer()] = true
	}
	talks := c.n.talking()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.members {
		if !m.gone {
			wanted[m.address] = true
		} else if time.Since(m.since) > c.n.tuning.forget && !talks[m.node] || c.back(m) {
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
