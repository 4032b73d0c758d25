package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
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
	// Gossip is the address that gossip binds to, IP:port; default: the IP that the
	// gRPC server listens on, with a free port.
	Gossip string
	// GossipAdvertise is where others reach the gossip; default: where it is bound.
	GossipAdvertise string
	// Keyring is a file with the keys that encrypt gossip, in base64, one a line; what
	// follows a # is a comment. The first key encrypts, all of them decrypt. The file is
	// read again every few seconds: to replace a key, put the new one behind the old one
	// on all nodes, then in front on all nodes, and then take the old one away. Without
	// it, whoever reaches the gossip can say that nodes come and go.
	Keyring string
	// Join are the gossip addresses of some nodes of the cluster, host:port. Its own
	// may be among them. They are resolved and tried again for as long as the node
	// runs, and so are nodes that it has met. Name several: nodes that start while the
	// only one of them is away do not meet until it is back.
	Join []string

	// TLS encrypts the connections between nodes, and of operators, and says who they
	// are. Without it, whoever reaches the node may do everything.
	TLS TLS
	// Authorize says who may do what, by the identities of their certificates. Without
	// rules, whoever has a certificate of the CA may do everything; with the first rule,
	// what no rule allows is forbidden. It takes TLS.
	Authorize []Rule
	// AdminAnywhere lets operators on other machines in where there is no TLS. Without
	// it, those on the machine of the node are answered.
	AdminAnywhere bool

	// Reflection lets tools such as grpcurl ask the server what it offers.
	Reflection bool
	// MaxUnacked is how many events the node keeps for a subscriber that has not
	// acknowledged them; default 100,000. When it is reached, that subscription pauses.
	MaxUnacked int64
	// MaxUnackedBytes is the same in encoded bytes; default 64 MiB. One frame is sent
	// whatever its size, when nothing else is un-acknowledged.
	MaxUnackedBytes int64
	// MaxBytes is what all subscribers of the node together may have un-acknowledged,
	// in encoded bytes; default 1 GiB. When it is reached, subscriptions pause until
	// others acknowledge. One that has nothing un-acknowledged sends a frame all the
	// same, so nobody starves and the node may hold that much more.
	MaxBytes int64
	// MaxDemand is how much a subscriber may have asked for that it has not
	// acknowledged; default 10,000,000. One that asks for more is refused by
	// wire.RuleAskTooLarge; the demand without a bound is no number, and legal.
	MaxDemand int64
	// MaxSubscriptions is how many subscriptions one peer may have at the node, those
	// whose connection broke included; default 4096. A peer is an
	// identity where there is mutual TLS, and else an IP address. What it opens beyond is refused by wire.RuleTooManySubscriptions, and tried again.
	MaxSubscriptions int
	// Logger takes the node's log; default slog.Default().
	Logger *slog.Logger
	// Version is what the node says its program's version is.
	Version string
}

// Limits that are not settings yet.
const (
	// maxFrame is the largest frame of a producer that a node takes; gRPC's own default.
	maxFrame = 4 << 20
	// maxAsked is the largest frame of a consumer. What is in it costs many times its
	// bytes when it is read, so gRPC refuses what is larger than maxRequest before that.
	maxAsked   = 256 << 10
	maxRequest = 2 * maxAsked
	// frameRoom is how much a node puts into one frame, where the peer takes that.
	frameRoom = 1 << 20

	// frameEvents is how many events at most.
	frameEvents = 1 << 14
	// smallestFrame is the least that a subscriber may take: what does not fit is
	// discarded, which is not to happen by a slip.
	smallestFrame = 16 << 10
	// maxCatalog is the longest answer that a node takes from another one about its
	// outlets, stages or subscriptions.
	maxCatalog = 64 << 20
	// maxMessage is how many bytes of an error's text cross the wire.
	maxMessage = 1 << 10

	openTimeout    = 10 * time.Second // for the first frame of a stream
	catalogTimeout = 15 * time.Second // a large one takes its time on a slow link
	joinTimeout    = 2 * time.Second  // that Start gives the first join
	drainGrace     = 5 * time.Second  // for a broken connection, when the node is about to leave
)

// tuning is what no operator has a reason to set, and tests do.
type tuning struct {
	keepalive keepaliveTimes
	// beat is after how long without a frame a stream gives a sign of life, where its peer
	// wants no longer one.
	beat time.Duration
	// answer is how long the End that answers a Cancel may take, and the half-close that
	// answers End, when nothing is left to process.
	answer time.Duration
	// slack is by how much the window of a producer outlasts that of its consumer, at
	// least: more than a break may take to be noticed.
	slack time.Duration
	// farewell is how long a stage that has cancelled, or a node that stops, waits for
	// a connection to come back.
	farewell time.Duration
	// goodbye is how long gossip may take to spread that a node leaves.
	goodbye time.Duration
	// settle is how long it takes gossip to show that a node leaves whose outlet has
	// ended, and patience how long one that is followed alone may be out of reach.
	settle, patience time.Duration
	gossip           func(*memberlist.Config)
	// reload is how often files are read again.
	reload time.Duration
	// rejoin is how often nodes that are not there are called.
	rejoin struct{ alone, every time.Duration }
	forget time.Duration // after which a node that is gone is not shown any more
	// unrun is after how long it is said that nobody runs a stage that is published.
	unrun time.Duration
	// young is how long a node may not know yet who else has come.
	young time.Duration

	// subscribe begins a stream to the node at an address.
	subscribe func(ctx context.Context, p *peers, address string) (sluicev1.SubscriptionService_SubscribeClient, error)
}

func newTuning() tuning {
	t := tuning{
		keepalive: keepaliveTimes{pingEvery, pingTimeout, pingAllowed},
		answer:    openTimeout,
		beat:      wire.DefaultHeartbeat,
		slack:     wire.Silence(wire.DefaultHeartbeat) + 5*time.Second,
		farewell:  5 * time.Second,
		goodbye:   2 * time.Second,
		settle:    time.Second,
		patience:  2 * time.Second,
		gossip:    func(*memberlist.Config) {},
		reload:    5 * time.Second,
		forget:    forgetAfter,
		unrun:     10 * time.Second,
		young:     2 * time.Second,

		subscribe: subscribe,
	}
	t.rejoin.alone, t.rejoin.every = time.Second, 10*time.Second
	return t
}

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
	for _, f := range []struct {
		name, value string
		most        int
	}{{"Name", c.Name, 128}, {"Zone", c.Zone, 64}, {"Cluster", c.Cluster, 128}, {"Advertise", c.Advertise, 253 + len(":65535")}} {
		switch {
		case len(f.value) > f.most:
			return fmt.Errorf("%w: %s has %d bytes: it takes at most %d, since gossip carries it in one packet", ErrConfig, f.name, len(f.value), f.most)
		case !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("%w: %s %q has characters that cannot be printed", ErrConfig, f.name, f.value)
		}
	}
	switch {
	case c.Name == "":
		return fmt.Errorf("%w: Name is empty: give every node of a cluster a name of its own", ErrConfig)
	case len(c.Join) > 0 && c.Cluster == "":
		return fmt.Errorf("%w: Cluster is empty and Join is not: without a name, clusters that meet by chance merge", ErrConfig)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxUnacked", c.MaxUnacked}, {"MaxUnackedBytes", c.MaxUnackedBytes}, {"MaxBytes", c.MaxBytes},
		{"MaxDemand", c.MaxDemand}, {"MaxSubscriptions", int64(c.MaxSubscriptions)},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: %s is %d: 0 stands for the default, and less makes no sense", ErrConfig, f.name, f.value)
		}
	}
	if err := c.TLS.check(); err != nil {
		return err
	}
	return c.checkRules()
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Listen == "" {
		d.Listen = "127.0.0.1:0"
	}
	d.MaxUnacked = cmp.Or(d.MaxUnacked, 100_000)
	d.MaxUnackedBytes = cmp.Or(d.MaxUnackedBytes, 64<<20)
	d.MaxBytes = cmp.Or(d.MaxBytes, 1<<30)
	d.MaxDemand = cmp.Or(d.MaxDemand, 10_000_000)
	d.MaxSubscriptions = cmp.Or(d.MaxSubscriptions, 4096)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	d.Logger = d.Logger.With("node", d.Name)
	if d.Version == "" {
		d.Version = "devel"
	}
	return d
}

// gossipBind is the IP and port that gossip binds to, where the gRPC server listens
// on listens. It takes IPs only: memberlist understands a host name as all interfaces.
func (c *Config) gossipBind(listens netip.Addr) (netip.AddrPort, error) {
	if c.Gossip == "" {
		if host, _, err := net.SplitHostPort(c.Listen); err == nil && host == "" {
			listens = netip.IPv4Unspecified() // all of them, in the family that has a default
		}
		return netip.AddrPortFrom(listens.Unmap(), 0), nil
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
