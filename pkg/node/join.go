package node

import (
	"context"
	"fmt"
	"sync"
	"time"
)

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
