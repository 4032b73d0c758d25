package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicenet/sluice/internal/mtls"
)

// TLS names the files of mutual TLS, in PEM: the certificate of the node, its key, and
// the CA that has signed those of all others. All three are needed: who is dialed
// shows a certificate, and so does who dials.
//
// The files are read again every few seconds, and what they hold is used for new
// connections, however they were replaced. The CA may be several one after the other,
// such as the old and the new one.
//
// Who a peer is stands in its certificate: its first URI, or else its first DNS name,
// or else its common name. Addresses are not verified. The certificate is for clients
// and servers: a node is both.
type TLS struct{ Cert, Key, CA string }

func (t TLS) check() error {
	if t == (TLS{}) || t.Cert != "" && t.Key != "" && t.CA != "" {
		return nil
	}
	return fmt.Errorf("%w: TLS has Cert %q, Key %q and CA %q: it takes all three, since both ends of a connection are verified", ErrConfig, t.Cert, t.Key, t.CA)
}

// openTLS reads the files.
func (n *Node) openTLS() error {
	if n.config.TLS == (TLS{}) {
		return nil
	}
	k, err := mtls.OpenNode(mtls.Files(n.config.TLS))
	if err != nil {
		return fmt.Errorf("%w: TLS: %w", ErrConfig, err)
	}
	n.tls = k
	return nil
}

// identity is who the node itself is; empty without TLS.
func (n *Node) identity() string {
	if n.tls == nil {
		return ""
	}
	return n.tls.Current().Identity
}

func (n *Node) serverCredentials() credentials.TransportCredentials {
	if n.tls == nil {
		return insecure.NewCredentials()
	}
	return handshakes{credentials.NewTLS(n.tls.Server()), n}
}

func (n *Node) clientCredentials() credentials.TransportCredentials {
	if n.tls == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(n.tls.Client(nil))
}

// handshakes says of whom a connection was not taken, and sees to it that the caller
// hears why.
type handshakes struct {
	credentials.TransportCredentials
	n *Node
}

func (h handshakes) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	patient := &lingering{n: h.n}
	if tcp, ok := conn.(*net.TCPConn); ok {
		patient.TCPConn, conn = tcp, patient
	}
	secure, info, err := h.TransportCredentials.ServerHandshake(conn)
	patient.taken.Store(err == nil)
	// Who connects and leaves without a word looks if somebody listens.
	if err != nil && !errors.Is(err, io.EOF) && h.n.ctx.Err() == nil {
		h.n.denials.add(denial{rule: ruleTLS, who: host(conn.RemoteAddr()), what: "connect", why: err.Error(),
			hint: "see that it has a certificate of the CA of this node, and that both clocks are right"})
	}
	return secure, info, err
}

func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.n}
}

// lingering is a connection whose other end can read the alert that says why it was
// not taken. It may have sent more by then, since in TLS 1.3 a client is done before it
// is verified; with that unread, a close would throw the alert away.
type lingering struct {
	*net.TCPConn
	n     *Node
	taken atomic.Bool
}

func (l *lingering) Close() error {
	if !l.taken.Load() && l.n.ctx.Err() == nil && l.CloseWrite() == nil {
		_ = l.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, l.TCPConn, 1<<16)
	}
	return l.TCPConn.Close()
}

// keepTLS goes on reading the files.
func (n *Node) keepTLS() {
	if n.tls != nil {
		n.reload("TLS", n.tls.Refresh)
	}
}

// warnOpen says what others can reach that is not protected.
func (n *Node) warnOpen(grpc, gossip bool) {
	if grpc && n.tls == nil {
		n.log.Warn("connections are not encrypted, and whoever reaches the node may subscribe and publish", "code", "SL0207",
			"hint", "give the nodes TLS, or listen on loopback")
	}
	if gossip && n.config.Keyring == "" {
		n.log.Warn("gossip is not encrypted: whoever reaches it can say that nodes come and go", "code", "SL0205",
			"hint", "give the nodes a keyring, or bind gossip to loopback")
	}
}
