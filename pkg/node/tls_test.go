package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicenet/sluice/internal/mtls"
	"github.com/sluicenet/sluice/internal/testca"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// tlsOf is the TLS of a node, in a directory of the test.
func tlsOf(t *testing.T, ca *testca.CA, identity string, change ...func(*x509.Certificate)) TLS {
	t.Helper()
	var c TLS
	c.Cert, c.Key, c.CA = testca.Write(t, t.TempDir(), ca.Issue(identity, change...), ca.PEM)
	return c
}

// logged is a log that tests read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// call dials a node as somebody and asks it for its catalog.
func call(t *testing.T, n *Node, creds credentials.TransportCredentials) error {
	t.Helper()
	conn := dialAs(t, n, creds)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := sluicev1.NewCatalogServiceClient(conn).GetCatalog(ctx, &sluicev1.GetCatalogRequest{})
	return err
}

func dialAs(t *testing.T, n *Node, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+n.listener.Addr().String(), grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// as are the credentials of somebody.
func as(t *testing.T, c TLS) credentials.TransportCredentials {
	t.Helper()
	k, err := mtls.OpenClient(mtls.Files(c))
	require.NoError(t, err)
	return credentials.NewTLS(k.Client(nil))
}

// Three nodes under mutual TLS are a pipeline like any other; nobody else gets in.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca, other := testca.New(t), testca.New(t)
	var log logged
	a := testNode("a", Config{TLS: tlsOf(t, ca, "spiffe://test/a"), Logger: log.logger()})
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)

	doubled := wire.JSON[int]("doubled")
	b := testNode("b", Config{TLS: tlsOf(t, ca, "b.test"), Join: join(a)})
	gate := stage.NewGate(stage.Map(func(n int) int { return 2 * n }))
	stage.Connect(Outlet(b, ints), gate)
	Publish(b, doubled, gate)
	start(t, b, gate)

	c := testNode("c", Config{TLS: tlsOf(t, ca, "c.test"), Join: join(a)})
	var got record
	sink := got.sink("out")
	stage.Connect(Outlet(c, doubled), sink)
	start(t, c, sink)
	push(1, 2, 3)
	eventually(t, "events flow", func() bool { return got.len() == 3 })
	require.Equal(t, []int{2, 4, 6}, got.all())

	require.NoError(t, call(t, a, as(t, tlsOf(t, ca, "friend"))))
	require.ErrorContains(t, call(t, a, insecure.NewCredentials()), "Unavailable")
	stranger := tlsOf(t, other, "spiffe://test/a")
	require.ErrorContains(t, call(t, a, as(t, stranger)), "unknown authority")
	stranger.CA = a.config.TLS.CA
	require.ErrorContains(t, call(t, a, as(t, stranger)), "unknown certificate authority")
	k, err := mtls.OpenClient(mtls.Files(a.config.TLS))
	require.NoError(t, err)
	bare := k.Client(nil)
	bare.GetClientCertificate = nil
	require.ErrorContains(t, call(t, a, credentials.NewTLS(bare)), "certificate required")
	expired := k.Client(nil)
	late, err := tls.X509KeyPair(pair(ca.Issue("late", testca.Expired)))
	require.NoError(t, err)
	expired.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &late, nil }
	require.ErrorContains(t, call(t, a, credentials.NewTLS(expired)), "expired certificate")

	// The node says whom it did not let in, and why.
	eventually(t, "it counts", func() bool { return a.denials.all()["tls"] >= 5 }) // gRPC may try twice
	require.Contains(t, log.String(), `msg=refused node=a rule=tls who=127.0.0.1 what=connect`)
}

func pair(p testca.Pair) (cert, key []byte) { return p.Cert, p.Key }

// Two nodes of two CAs do not get anything from each other, and one without TLS gets
// nothing from one with it.
func TestNodesOfOtherCAs(t *testing.T) {
	t.Parallel()
	ca, other := testca.New(t), testca.New(t)
	a := testNode("a", Config{TLS: tlsOf(t, ca, "a")})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	for _, c := range []Config{{TLS: tlsOf(t, other, "b")}, {}} {
		var log logged
		c.Join, c.Logger = join(a), log.logger()
		b := testNode("b", c)
		var got record
		sink := got.sink("out")
		stage.Connect(Outlet(b, ints), sink)
		p := start(t, b, sink)
		eventually(t, "it is said", func() bool {
			return bytes.Contains([]byte(log.String()), []byte("what another node offers is not known"))
		})
		require.Zero(t, got.len())
		p.stop()
		_ = p.wait()
	}
}

// The files are replaced while events flow: who is there stays, who comes meets the new
// ones, and nothing is lost. What cannot be used is said and changes nothing.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	ca, next := testca.New(t), testca.New(t)
	dir := t.TempDir()
	put := func(p testca.Pair, ca []byte) (c TLS) {
		// All at once, as Kubernetes does it.
		fresh, err := os.MkdirTemp(dir, "v")
		require.NoError(t, err)
		testca.Write(t, fresh, p, ca)
		link := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink(fresh, link))
		require.NoError(t, os.Rename(link, filepath.Join(dir, "data")))
		data := filepath.Join(dir, "data")
		return TLS{filepath.Join(data, "cert.pem"), filepath.Join(data, "key.pem"), filepath.Join(data, "ca.pem")}
	}
	both := append(append([]byte{}, ca.PEM...), next.PEM...)
	var log logged
	a, link := linked(t, "a", Config{TLS: put(ca.Issue("a-one"), both), Logger: log.logger()})
	source, push := pushed()
	Publish(a, ints, source)
	through(t, a, link, source)

	own := tlsOf(t, ca, "b")
	require.NoError(t, os.WriteFile(own.CA, both, 0o600))
	b := testNode("b", Config{TLS: own, Join: join(a)})
	var got record
	sink := got.sink("out")
	stage.Connect(Outlet(b, ints), sink)
	start(t, b, sink)
	sent := 0
	flow := func() {
		t.Helper()
		for range 100 {
			push(sent)
			sent++
		}
		eventually(t, "events flow", func() bool { return got.len() == sent })
	}
	flow()

	// seen is whom somebody meets who comes now.
	seen := func() (id string) {
		k, err := mtls.OpenClient(mtls.Files(own))
		require.NoError(t, err)
		_ = call(t, a, credentials.NewTLS(k.Client(func(identity string) error { id = identity; return nil })))
		return id
	}
	require.Equal(t, "a-one", seen())
	put(next.Issue("a-two"), both)
	eventually(t, "the new one is in use", func() bool { return seen() == "a-two" })
	flow()
	link.Cut()
	flow()

	put(next.Issue("a-three", testca.Expired), both)
	eventually(t, "it is said", func() bool {
		return bytes.Contains([]byte(log.String()), []byte("files cannot be used"))
	})
	require.Equal(t, "a-two", seen())
	flow()
	time.Sleep(5 * a.tuning.reload)
	require.Equal(t, 1, bytes.Count([]byte(log.String()), []byte("files cannot be used")), "once")
	got.inOrder(t, sent)
}

// A TLS that cannot work is an error of the configuration, before anything listens.
func TestTLSConfig(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	good := tlsOf(t, ca, "a")
	for says, c := range map[string]TLS{
		"takes all three": {Cert: good.Cert, Key: good.Key},
		"cannot be read":  {Cert: good.Cert, Key: good.Key, CA: "missing.pem"},
		"has expired":     tlsOf(t, ca, "a", testca.Expired),
	} {
		err := testNode("a", Config{TLS: c}).Start(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, says)
	}
}

// G14: a peer is dialed where it is, whatever proxy the environment knows. An address
// of loopback is never proxied, so this one is of nobody.
func TestNoProxy(t *testing.T) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer proxy.Close()
	came := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := proxy.Accept()
			if err != nil {
				return
			}
			came <- struct{}{}
			_ = conn.Close()
		}
	}()
	t.Setenv("HTTPS_PROXY", "http://"+proxy.Addr().String())
	t.Setenv("NO_PROXY", "")
	n := testNode("a", Config{})
	defer n.peers.close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = n.fetchCatalog(ctx, "192.0.2.1:7301")
	require.Error(t, err)
	require.Empty(t, came, fmt.Sprint(err))
}
