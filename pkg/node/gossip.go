package node

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/memberlist"
)

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

// gossipAdvertise is where others reach the gossip that is bound to bind. Port 0 stands
// for the one that is bound.
func (c *Config) gossipAdvertise(ctx context.Context, bind netip.AddrPort) (netip.AddrPort, error) {
	if c.GossipAdvertise == "" {
		if bind.Addr().IsUnspecified() {
			return netip.AddrPortFrom(outward(bind.Addr(), interfaceAddresses()), 0), nil
		}
		return netip.AddrPortFrom(bind.Addr(), 0), nil
	}
	all, err := resolve(ctx, c.GossipAdvertise)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: GossipAdvertise %q: %w", ErrConfig, c.GossipAdvertise, err)
	}
	for _, a := range all {
		if a.Addr().Is4() == bind.Addr().Is4() {
			return a, nil // of the family that it is bound to
		}
	}
	return all[0], nil
}

// delegate gives memberlist the digest. The node has no other use for its messages.
type delegate struct{ n *Node }

func (d *delegate) NodeMeta(limit int) []byte { return d.n.digest(limit) }

func (d *delegate) NotifyMsg([]byte) {}

func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }

func (d *delegate) LocalState(bool) []byte { return nil }

func (d *delegate) MergeRemoteState(_ []byte, _ bool) {}

// events copies what memberlist says about others. It runs under memberlist's lock.
type events struct{ c *cluster }

func (e *events) NotifyJoin(m *memberlist.Node) { e.queue(m, false) }

func (e *events) NotifyUpdate(m *memberlist.Node) { e.queue(m, false) }

func (e *events) NotifyLeave(m *memberlist.Node) { e.queue(m, true) }

func (e *events) queue(m *memberlist.Node, gone bool) {
	own := e.c.n.config.Name + "-" + strconv.FormatUint(e.c.n.incarnation, 36)
	if m.Name == own {
		return
	}
	x := news{
		meta: append([]byte(nil), m.Meta...), gone: gone, left: gone && m.State == memberlist.StateLeft,
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
