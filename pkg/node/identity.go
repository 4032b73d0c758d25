package node

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/sluicenet/sluice/internal/mtls"
)

// peerIdentity is who is at the other end of a call, by the certificate that it was
// verified with; empty without TLS. A server may ask at any time, a client as soon as
// something has come back.
func peerIdentity(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return identityOf(p)
}

// host is the host of an address.
func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}

func identityOf(p *peer.Peer) string {
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return mtls.PeerIdentity(info.State)
	}
	return ""
}

// local reports whether a call comes from this machine: from loopback, or from the
// very address that it came to.
func local(p *peer.Peer) bool {
	from, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	to, ok := p.LocalAddr.(*net.TCPAddr)
	return from.IP.IsLoopback() || ok && from.IP.Equal(to.IP)
}
