package node

import (
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/internal/registry"
)

// publisher is where an outlet is found.
type publisher struct {
	node, address string
	incarnation   uint64
	draining      bool // it is about to leave, and takes no new subscribers
	ended         bool // its outlet has ended
}

// find returns who offers an outlet, the node itself included, in the order in which
// subscriber should try them, and a channel that is closed when that may have changed.
// What a node has offered before it was started anew is not offered any more.
func (c *cluster) find(outlet, subscriber string) (found []publisher, changed <-chan struct{}) {
	own := c.n.catalog()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != own.Version {
		c.held = own.Version
		c.catalogs.Put(own)
	}
	alive := []registry.Candidate{{Node: c.n.config.Name, Zone: c.n.config.Zone}}
	at := map[string]publisher{c.n.config.Name: {
		node: c.n.config.Name, address: c.n.address, incarnation: c.n.incarnation, draining: c.n.draining.Load(),
	}}
	for _, m := range c.newest() {
		if m.node == c.n.config.Name {
			continue
		}
		alive = append(alive, registry.Candidate{Node: m.node, Zone: m.zone})
		at[m.node] = publisher{node: m.node, address: m.address, incarnation: m.incarnation, draining: m.draining}
	}
	for _, o := range c.catalogs.Rank(outlet, subscriber, alive, c.n.config.Zone) {
		if p := at[o.Node]; p.incarnation == o.Incarnation {
			p.ended = o.Ended || o.Node == own.Node && c.n.hasEnded(outlet)
			found = append(found, p)
		}
	}
	return found, c.changed
}

// sayUnanswered is how often in succession a member does not answer before that is
// said: one that has just gone does not either.
const sayUnanswered = 2

// yield forgets what a start of a node offered that is gone and looks later than the one
// that has answered now: the clock of its machine was set back. The lock is held.
func (c *cluster) yield(got registry.Catalog) {
	held, ok := c.catalogs.Get(got.Node)
	if !ok || held.Incarnation <= got.Incarnation {
		return
	}
	for _, m := range c.members {
		if !m.gone && m.node == got.Node && m.incarnation == held.Incarnation {
			return
		}
	}
	c.catalogs.Forget(got.Node)
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
				m.unanswered++
				if m.unanswered == sayUnanswered {
					c.n.log.Warn("what another node offers is not known: it does not answer", "other", m.node, "at", address,
						"why", status.Convert(err).Message(), "hint", "see that both have TLS of one CA or both have none, and that the address can be reached from here")
				}
				return
			}
			m.unanswered = 0
			if got.Node != m.node || got.Incarnation != m.incarnation {
				return // the address belongs to somebody else by now
			}
			m.fetched = max(version, got.Version)
			if m.version < m.fetched {
				m.version = m.fetched
			}
			c.yield(got)
			c.catalogs.Put(got)
			c.tell()
		})
	}
}
