package node

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// ether carries the gossip of nodes, and can be cut between any of them, in one
// direction or both. What runs over gRPC passes elsewhere.
type ether struct {
	mu   sync.Mutex
	lost func(from, to string) bool // by gossip address
}

// carry lets the gossip of n pass through the ether.
func (e *ether) carry(n *Node) *Node {
	before := n.tuning.gossip
	n.tuning.gossip = func(m *memberlist.Config) {
		before(m)
		m.GossipToTheDeadTime = 200 * time.Millisecond // the memory of gossip
		m.PushPullInterval = time.Second
		m.Transport = &onEther{NetTransport: m.Transport.(*memberlist.NetTransport), e: e}
	}
	n.tuning.rejoin.alone, n.tuning.rejoin.every = 100*time.Millisecond, 200*time.Millisecond
	return n
}

// split cuts one part of the nodes off the others.
func (e *ether) split(part ...*Node) {
	in := map[string]bool{}
	for _, n := range part {
		in[n.GossipAddress()] = true
	}
	e.lose(func(from, to string) bool { return in[from] != in[to] })
}

func (e *ether) heal() { e.lose(nil) }

func (e *ether) lose(f func(from, to string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = f
}

func (e *ether) loses(from, to string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost != nil && e.lost(from, to)
}

type onEther struct {
	*memberlist.NetTransport
	e   *ether
	own string
}

func (t *onEther) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	a, p, err := t.NetTransport.FinalAdvertiseAddr(ip, port)
	t.own = net.JoinHostPort(a.String(), strconv.Itoa(p))
	return a, p, err
}

func (t *onEther) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if t.e.loses(t.own, a.Addr) {
		return time.Now(), nil
	}
	return t.NetTransport.WriteToAddress(b, a)
}

func (t *onEther) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *onEther) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	if t.e.loses(t.own, a.Addr) || t.e.loses(a.Addr, t.own) {
		return nil, errors.New("the ether is cut")
	}
	return t.NetTransport.DialAddressTimeout(a, limit)
}

func (t *onEther) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, limit)
}
