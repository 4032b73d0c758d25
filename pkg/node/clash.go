package node

import (
	"time"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// clashAfter is how long two nodes have one name before the older is asked whether it
// lives: who was refused the name is gone by then.
const clashAfter = time.Second

// clash is what is known about others that have the logical name of a node.
//
// A node that was restarted elsewhere looks like a clash until gossip knows that the
// process before is dead. So nothing is said before that has answered.
type clash struct {
	from   time.Time // since when there are two
	asking bool
	lives  uint64 // it has answered although a node of that incarnation has its name
	rival  string // where the other one is, or empty
	said   uint64 // the incarnation that the log has named
}

// mark shows a clash in what an operator sees of the node.
func (c clash) mark(i *sluicev1.NodeInfo) {
	if c.rival != "" {
		i.State, i.Error = sluicev1.NodeState_NODE_STATE_CONFLICT, "another node of that name is at "+c.rival
	}
}

// clashes is what is known about others that have the name of this node.
func (c *cluster) clashes() clash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// newest are the living members, of those with one logical name the latest start: the
// others are what gossip has not noticed to be gone. The lock is held.
func (c *cluster) newest() map[string]*member {
	all := map[string]*member{}
	for _, m := range c.members {
		if o := all[m.node]; !m.gone && (o == nil || o.incarnation < m.incarnation) {
			all[m.node] = m
		}
	}
	return all
}

// conflicts looks for living nodes that have one logical name. The lock is held.
func (c *cluster) conflicts() {
	self := &member{node: c.n.config.Name, address: c.n.address, incarnation: c.n.incarnation, clash: c.own}
	newest := c.newest()
	if o := newest[self.node]; o == nil || o.incarnation < self.incarnation {
		newest[self.node] = self
	}
	rivals := map[*member]string{}
	check := func(m *member) {
		n := newest[m.node]
		switch {
		case m.gone || m == n || m.address == n.address: // of two at one address, the older is gone
			m.clash.from = time.Time{}
			return
		case m == self:
			m.lives = n.incarnation
		}
		if m.clash.from.IsZero() {
			m.clash.from = time.Now()
		}
		if time.Since(m.clash.from) < clashAfter {
			return
		}
		if m.lives != n.incarnation {
			c.ask(m, n.incarnation)
			return
		}
		rivals[m], rivals[n] = n.address, m.address
		if m.said != n.incarnation {
			m.said = n.incarnation
			c.n.log.Error("two nodes have one name", "name", m.node, "at", m.address, "and_at", n.address, "code", "SL0204",
				"hint", "names are unique in a cluster: stop one of them")
		}
	}
	check(self)
	for _, m := range c.members {
		check(m)
	}
	for _, m := range c.members {
		m.rival = rivals[m]
	}
	c.own = self.clash
	c.own.rival = rivals[self]
}

// ask asks m whether it lives although a later start has its name. The lock is held.
func (c *cluster) ask(m *member, later uint64) {
	if m.asking {
		return
	}
	m.asking = true
	address, incarnation := m.address, m.incarnation
	c.n.background.Go(func() {
		got, err := c.n.fetchCatalog(c.n.ctx, address)
		c.mu.Lock()
		defer c.mu.Unlock()
		m.asking = false
		if err == nil && got.Incarnation == incarnation {
			m.lives = later
		}
	})
}
