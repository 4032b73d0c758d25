package node

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Keepalive is one matched pair: a server closes connections of clients that ping
// more often than its policy allows, and a stream that carries nothing for a while
// counts as no activity. So both sides are set here and nowhere else.
const (
	pingEvery   = 30 * time.Second
	pingTimeout = 10 * time.Second
	pingAllowed = 10 * time.Second
)

// connecting is how a connection is sought that is not there. A resume window is not to
// pass while gRPC waits.
var connecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Room of a connection. gRPC takes its buffers from a pool while they are in use. It would
// find out by itself how much may be on its way, with a ping for every few frames; for
// a subscription that is what was asked for, so it is told its own limits from the start.
const (
	connBuffer   = 128 << 10 // for what is read, and written, at once
	streamWindow = 8 << 20   // on its way to a consumer, on one stream
	connWindow   = 16 << 20
	askWindow    = 64 << 10 // on its way to a producer, on one stream: small frames
	asksWindow   = 1 << 20
)

// keepaliveTimes are those of a node.
type keepaliveTimes struct{ every, timeout, allowed time.Duration }

func (k keepaliveTimes) server() (keepalive.ServerParameters, keepalive.EnforcementPolicy) {
	return keepalive.ServerParameters{Time: k.every, Timeout: k.timeout},
		keepalive.EnforcementPolicy{MinTime: k.allowed, PermitWithoutStream: true}
}

func (k keepaliveTimes) client() keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: k.every, Timeout: k.timeout, PermitWithoutStream: true}
}

func (n *Node) newServer() *grpc.Server {
	pings, policy := n.tuning.keepalive.server()
	options := []grpc.ServerOption{
		grpc.Creds(n.serverCredentials()),
		grpc.KeepaliveParams(pings),
		grpc.KeepaliveEnforcementPolicy(policy),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.ReadBufferSize(connBuffer),
		grpc.WriteBufferSize(connBuffer),
		grpc.InitialWindowSize(askWindow),
		grpc.InitialConnWindowSize(asksWindow),
		grpc.ForceServerCodecV2(frameCodec),
		grpc.ChainStreamInterceptor(n.recoverStream, n.guardStream),
		grpc.ChainUnaryInterceptor(n.recoverUnary, n.guardUnary),
	}
	s := grpc.NewServer(options...)
	sluicev1.RegisterSubscriptionServiceServer(s, &subscriptions{n: n})
	sluicev1.RegisterCatalogServiceServer(s, &catalogs{n: n})
	sluicev1.RegisterAdminServiceServer(s, &admin{n: n})
	if n.config.Reflection {
		reflection.Register(s)
	}
	return s
}

// recoverStream keeps a panic in a call from ending the process.
func (n *Node) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer n.recovered(info.FullMethod, &err)
	return handle(srv, stream)
}

func (n *Node) recoverUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	defer n.recovered(info.FullMethod, &err)
	return handle(ctx, request)
}

func (n *Node) recovered(method string, err *error) {
	if v := recover(); v != nil {
		n.log.Error("a call panicked", "method", method, "panic", v, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the call panicked: see the log of the node")
	}
}

// peers holds one connection for each peer, shared by everything that goes there.
type peers struct {
	n     *Node
	mu    sync.Mutex
	conns map[string]*connection
}

// connection is one to a peer, and how many subscriptions and calls use it.
type connection struct {
	*grpc.ClientConn
	made time.Time
	uses int
	// silent says that it is not used for anything new. It is closed when nothing uses it.
	silent bool
}

// dial returns the connection to an address, which stays open until the caller is
// done. It does no I/O: errors come from calls.
func (p *peers) dial(address string) (conn *grpc.ClientConn, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.conns[address]
	if !ok {
		conn, err := p.connect(address)
		if err != nil {
			return nil, nil, err
		}
		if p.conns == nil {
			p.conns = map[string]*connection{}
		}
		c = &connection{ClientConn: conn, made: time.Now()}
		p.conns[address] = c
	}
	c.uses++
	return c.ClientConn, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.uses--
		if c.silent && c.uses == 0 {
			_ = c.Close()
		}
	}), nil
}

// forget is told that something which began at a time has heard nothing from an address.
// The connection that it used is not used again, since gRPC may take its time to find it
// dead, or think it alive where one direction is. What else uses it finds that by itself.
// One that gRPC is still seeking is left to it.
func (p *peers) forget(address string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.conns[address]
	if !ok || c.made.After(began) || c.GetState() != connectivity.Ready {
		return
	}
	delete(p.conns, address)
	c.silent = true
	if c.uses == 0 {
		_ = c.Close()
	}
}

func (p *peers) connect(address string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	// passthrough and no proxy: a peer is dialed where it says it is, and nowhere else.
	return grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(p.n.clientCredentials()),
		grpc.WithKeepaliveParams(p.n.tuning.keepalive.client()),
		grpc.WithNoProxy(),
		grpc.WithReadBufferSize(connBuffer),
		grpc.WithWriteBufferSize(connBuffer),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrame), grpc.ForceCodecV2(frameCodec)),
		grpc.WithConnectParams(connecting),
	}, more...)...)
}

// subscribe begins a stream over the connection to an address, which stays open until
// ctx ends.
func subscribe(ctx context.Context, p *peers, address string) (sluicev1.SubscriptionService_SubscribeClient, error) {
	conn, done, err := p.dial(address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, done)
	return sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
}

// retain closes the connections to all other addresses, of nodes that are gone, as
// long as nothing uses them.
func (p *peers) retain(wanted map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		if !wanted[address] && c.uses == 0 {
			_ = c.Close()
			delete(p.conns, address)
		}
	}
}

// close closes all of them.
func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}
