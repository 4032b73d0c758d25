package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Config is what a node is made of. The zero value of every field but Name is
// usable.
type Config struct {
	// Name is the logical name of the node, unique in its cluster and the same over
	// every restart.
	Name string
	// Cluster is the name of the cluster. Nodes of clusters with other names never
	// meet. It is required where Join names anybody.
	Cluster string
	// Zone says where the node stands. Subscriptions prefer publishers of their own.
	Zone string

	// Listen is the address of the gRPC server, host:port; default 127.0.0.1:0. Port
	// 0 takes a free one.
	Listen string
	// Advertise is where others reach the gRPC server; default: the address it
	// listens on, or that of the gossip where it listens on all.
	Advertise string
	// Gossip is the address that gossip binds to, IP:port: default the host of Listen
	// where that is an IP, with a free port.
	Gossip string
	// GossipAdvertise is where others reach the gossip; default: where it is bound.
	GossipAdvertise string
	// Join are the gossip addresses of some nodes of the cluster, host:port. Its own
	// may be among them. They are tried again for as long as the node runs.
	Join []string

	// Reflection lets tools such as grpcurl ask the server what it offers.
	Reflection bool
	// MaxUnacked is how many events the node keeps for a subscriber that has not
	// acknowledged them; default 100,000. When it is reached, that subscription pauses.
	MaxUnacked int64
	// Logger takes the node's log; default slog.Default().
	Logger *slog.Logger
	// Version is what the node says its program's version is.
	Version string
}

// Limits that are not settings yet.
const (
	// maxFrame is the largest frame that a node takes; gRPC's own default.
	maxFrame = 4 << 20
	// frameRoom is how much a node puts into one frame, where the peer takes that.
	frameRoom = 1 << 20

	openTimeout    = 10 * time.Second // for the first frame of a stream
	catalogTimeout = 2 * time.Second
	joinTimeout    = 2 * time.Second // that Start gives the first join
	rejoinEvery    = 10 * time.Second
	leaveTimeout   = 2 * time.Second
)

// Errors of a configuration, and of starting with it.
var (
	// ErrConfig: a field makes no sense.
	ErrConfig = errors.New("invalid node configuration")
	// ErrNameTaken: a living node of the cluster has the name.
	ErrNameTaken = errors.New("the name of the node is taken")
	// ErrDuplicateOutlet: a node offers an outlet once.
	ErrDuplicateOutlet = errors.New("the outlet is published already")
)

func (c *Config) check() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("%w: Name is empty: give every node of a cluster a name of its own", ErrConfig)
	case len(c.Name) > 128, len(c.Zone) > 64, len(c.Cluster) > 128:
		return fmt.Errorf("%w: Name and Cluster take at most 128 bytes, Zone 64", ErrConfig)
	case len(c.Join) > 0 && c.Cluster == "":
		return fmt.Errorf("%w: Cluster is empty and Join is not: without a name, clusters that meet by chance merge", ErrConfig)
	}
	return nil
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Listen == "" {
		d.Listen = "127.0.0.1:0"
	}
	if d.MaxUnacked == 0 {
		d.MaxUnacked = 100_000
	}
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = d.Logger.With("node", d.Name)
	if d.Version == "" {
		d.Version = "devel"
	}
	return d
}

// gossipBind is the IP and port that gossip binds to. It takes IPs only: memberlist
// understands a host name as all interfaces.
func (c *Config) gossipBind() (netip.AddrPort, error) {
	if c.Gossip == "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%w: Listen %q: %w", ErrConfig, c.Listen, err)
		}
		ip, err := netip.ParseAddr(host)
		if host == "" {
			ip, err = netip.IPv4Unspecified(), nil
		}
		if err != nil {
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		return netip.AddrPortFrom(ip, 0), nil
	}
	host, port, err := net.SplitHostPort(c.Gossip)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: Gossip %q: %w", ErrConfig, c.Gossip, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: Gossip %q: %q is no IP address: a host name would bind every interface", ErrConfig, c.Gossip, host)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: Gossip %q: %w", ErrConfig, c.Gossip, err)
	}
	return netip.AddrPortFrom(ip, uint16(n)), nil
}

// resolve turns host:port into IP:port. memberlist takes IPs only where it
// advertises, and asks a name server in ways of its own where it joins.
func resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q: %w", port, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip, uint16(n))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	all := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		all[i] = netip.AddrPortFrom(ip.Unmap(), uint16(n))
	}
	return all, nil
}
