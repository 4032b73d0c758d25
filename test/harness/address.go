//go:build linux

package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
)

// FreeAddress is an address on loopback that nobody listens on, and nobody but this
// process and those that it starts is given: a program that was killed can listen there
// again. It is for TCP and UDP.
func FreeAddress() (string, error) {
	h, err := claimed()
	if err != nil {
		return "", err
	}
	return h.free()
}

// claimed is the host of this process.
var claimed = sync.OnceValues(func() (*host, error) { return claim(random) })

// Ports of a host: the one that says that it is taken, and the first that is given. The
// kernel gives none of them to others, it begins at 32768.
const (
	mark  = 19999
	first = 20000
	last  = 32767
)

// host is an address of the loopback network, which has 16 million of them.
type host struct {
	addr netip.Addr
	// mark listens for the life of the process, and so keeps others off.
	mark net.Listener

	mu   sync.Mutex
	next uint16 // port
}

// random is any host but those that people use by hand.
func random() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

// claim takes the first host that pick names and nobody has.
func claim(pick func() netip.Addr) (*host, error) {
	var err error
	for range 100 {
		addr := pick()
		var l net.Listener
		if l, err = net.Listen("tcp", netip.AddrPortFrom(addr, mark).String()); err == nil {
			return &host{addr: addr, mark: l, next: first}, nil
		}
	}
	return nil, fmt.Errorf("no host on loopback is free: %w", err)
}

// free is the next address that nobody listens on. One that listens on all addresses of
// the machine would be in the way.
func (h *host) free() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; h.next <= last; h.next++ {
		address := net.JoinHostPort(h.addr.String(), strconv.Itoa(int(h.next)))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		_ = l.Close()
		h.next++
		return address, nil
	}
	return "", fmt.Errorf("%v has no free port", h.addr)
}
