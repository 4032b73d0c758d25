package config

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (c checker) listen(g GRPC) {
	if c.fits("listen.grpc.address") {
		c.address("listen.grpc.address", g.Address, c.pos("listen.grpc.address"))
	}
	// An empty advertise is the default, written out.
	if at := c.pos("listen.grpc.advertise"); g.Advertise != "" {
		a, ok := c.address("listen.grpc.advertise", g.Advertise, at)
		if ok {
			c.dialed("listen.grpc.advertise", g.Advertise, a, at)
		}
		if ok && a.ip.IsValid() && a.ip.IsUnspecified() {
			c.p.add(codeAddress, at, "listen.grpc.advertise %s is every interface here, and nothing that others can dial", quote(g.Advertise))
		}
	}
}

func (c checker) cluster(s Cluster) {
	if s.Name != "" {
		c.name("cluster.name", s.Name, maxName)
	}
	if c.fits("cluster.bind") {
		c.bind(s.Bind, c.pos("cluster.bind"))
	}
	list := c.root.at("cluster", "join")
	nameless := s.Name == "" && !c.root.at("cluster", "name").isWrong()
	for i, join := range s.Join {
		item := list.items[i]
		if item.kind != scalar {
			continue
		}
		path := "cluster.join[" + itoa(i) + "]"
		a, ok := c.address(path, join, item.pos)
		if !ok || !c.dialed(path, join, a, item.pos) {
			continue
		}
		if nameless && !sameAddress(join, s.Bind) {
			nameless = false // once is enough
			c.p.add(codeCluster, item.pos,
				"cluster.name is required to join %s, which is not this node: clusters of different names never merge, so a wrong address cannot join two of them",
				quote(join))
		}
	}
}

// isWrong reports whether something is there that is not text.
func (v *value) isWrong() bool { return v.given() && v.kind != scalar }

// bind checks the address of gossip, which resolves no names.
func (c checker) bind(text string, at Pos) {
	a, ok := c.address("cluster.bind", text, at)
	switch {
	case !ok:
	case a.host == "":
		c.p.add(codeAddress, at, "cluster.bind %s needs an IP address: 0.0.0.0 listens on every interface", quote(text))
	case !a.ip.IsValid():
		c.p.add(codeAddress, at, "cluster.bind %s needs an IP address: gossip takes a host name for every interface", quote(text))
	case a.ip.Zone() != "":
		c.p.add(codeAddress, at, "cluster.bind %s needs an IP address without a zone", quote(text))
	}
}

// dialed checks an address that somebody dials.
func (c checker) dialed(path, text string, a address, at Pos) bool {
	switch {
	case a.host == "":
		c.p.add(codeAddress, at, "%s %s needs a host to dial", path, quote(text))
	case a.port == 0:
		c.p.add(codeAddress, at, "%s %s needs a port to dial, 0 is none", path, quote(text))
	default:
		return true
	}
	return false
}

// address is host:port. The IP is valid where the host is one.
type address struct {
	host string
	ip   netip.Addr
	port uint16
}

// address takes text apart, and reports what is no host:port. The host may be
// empty.
func (c checker) address(path, text string, at Pos) (address, bool) {
	fail := func(why string) (address, bool) {
		c.p.add(codeAddress, at, "%s %s is not host:port: %s", path, quote(text), why)
		return address{}, false
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if e := new(net.AddrError); errors.As(err, &e) {
			return fail(e.Err)
		}
		return fail(err.Error())
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fail("the port is not a number from 0 to 65535")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil && host != "" && badName(host, maxName) != "" {
		return fail("the host is neither a name nor an IP address")
	}
	return address{host, ip, uint16(n)}, true
}

// sameAddress reports whether two addresses are one, however they are written.
func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddrPort(a)
	y, errY := netip.ParseAddrPort(b)
	if errX != nil || errY != nil {
		return a == b
	}
	return x == y
}
