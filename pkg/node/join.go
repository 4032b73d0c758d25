package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// callsEach is how many seeds, how many addresses of one seed, and how many nodes
	// met before are called in one round.
	callsEach = 5
	// mostMet is how many nodes are remembered to be called. One of another part of a
	// cluster is enough to find all of that part.
	mostMet = 64
)

// start joins the others. It waits a little for the first answer, since then it can
// say that the name of the node is taken; others may well come later.
func (c *cluster) start(ctx context.Context) error {
	c.mark()
	c.reconciles = true
	go c.reconcile()
	joined := make(chan struct{})
	c.n.background.Go(func() {
		c.join(c.n.config.Join, nil)
		close(joined)
		c.rejoin()
	})
	if len(c.n.config.Join) == 0 {
		return nil
	}
	select {
	case <-joined:
	case <-time.After(joinTimeout):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.nameTaken(ctx)
}

// rejoin goes on calling, for as long as the node runs: a seed may start later, and a
// split that has lasted longer than gossip remembers heals only when somebody calls.
// Seeds may be gone by then, and so it calls whom it has met as well.
func (c *cluster) rejoin() {
	for {
		wait := c.n.tuning.rejoin.every
		if c.list.NumMembers() == 1 {
			wait = c.n.tuning.rejoin.alone
		}
		if !pause(c.n.ctx, wait/2+rand.N(wait)) { // not all of a cluster at once
			return
		}
		c.join(few(c.n.config.Join), few(c.missed()))
	}
}

// join calls seeds and addresses, at the same time: one that does not answer holds up
// nobody. Who is a member already is not called.
func (c *cluster) join(seeds, addresses []string) {
	ctx, cancel := context.WithTimeout(c.n.ctx, joinTimeout)
	defer cancel()
	present := c.present()
	var wg sync.WaitGroup
	for _, seed := range seeds {
		wg.Go(func() {
			all, err := resolve(ctx, seed) // each time: the name may lead elsewhere by now
			if err != nil {
				c.complain(seed, unresolved, err)
				return
			}
			c.settled(seed, unresolved)
			all = slices.DeleteFunc(all, func(a netip.AddrPort) bool { return present[a.String()] })
			for _, a := range few(all) {
				if ctx.Err() == nil {
					c.call(a.String())
				}
			}
		})
	}
	for _, a := range addresses {
		wg.Go(func() { c.call(a) })
	}
	wg.Wait()
}

// call exchanges all that both know with the node at an address of gossip.
func (c *cluster) call(address string) {
	_, err := c.list.Join([]string{address})
	if first := errors.Unwrap(err); first != nil {
		err = first // there is one only, and its text is one line
	}
	switch {
	case err == nil:
		c.settled(address, untaken)
	case strings.Contains(err.Error(), "EOF") || foreign(err.Error()):
		// To one of another cluster a node says nothing at all.
		c.complain(address, untaken, err,
			"code", "SL0201", "hint", fmt.Sprintf("is it a node of cluster %q, with the same gossip key?", c.n.config.Cluster))
	default:
		c.n.log.Debug("cannot join", "address", address, "why", err)
	}
}

// What stands in the way of joining at an address.
const (
	unresolved = "cannot resolve a node to join"
	untaken    = "a node to join does not take the gossip of this one"
)

// complaint is one of these, at one address.
type complaint struct{ address, what string }

// complain warns of what stands in the way of joining at an address, once until that
// is settled.
func (c *cluster) complain(address, what string, err error, more ...any) {
	if _, again := c.complaints.LoadOrStore(complaint{address, what}, true); !again {
		c.n.log.Warn(what, append([]any{"address", address, "why", err}, more...)...)
	}
}

func (c *cluster) settled(address, what string) { c.complaints.Delete(complaint{address, what}) }

// few picks some of all.
func few[T any](all []T) []T {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), callsEach)]
}

// meet remembers a node, to be called when it is missed. One of those that are there
// makes room for it. The lock is held.
func (c *cluster) meet(m *member) {
	c.met[m.node] = m.gossip
	if len(c.met) <= mostMet {
		return
	}
	drop := m.node
	for _, o := range c.members {
		if c.met[o.node] != "" && !o.gone && o != m {
			drop = o.node
			break
		}
	}
	delete(c.met, drop)
}

// present are the gossip addresses of the living, this node included.
func (c *cluster) present() map[string]bool {
	all := map[string]bool{c.gossip: true}
	members, _ := c.view()
	for _, m := range members {
		if !m.gone {
			all[m.gossip] = true
		}
	}
	return all
}

// missed are the gossip addresses of nodes that were met, have not said goodbye, and
// are not there.
func (c *cluster) missed() []string {
	present := c.present()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(c.met)), func(a string) bool { return present[a] })
}

// introduce tells nodes that have just come about each other, before the one leaves
// that they have come to: gossip may not have had the time.
func (c *cluster) introduce() {
	var fresh []string
	members, _ := c.view()
	for _, m := range members {
		if !m.gone && !m.draining && time.Since(m.since) < c.n.tuning.young {
			fresh = append(fresh, m.gossip)
		}
	}
	if len(fresh) < 2 {
		return
	}
	var wg sync.WaitGroup
	for _, a := range few(fresh) {
		wg.Go(func() { c.call(a) })
	}
	wg.Wait()
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
