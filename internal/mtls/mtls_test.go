package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/testca"
)

func files(t *testing.T, p testca.Pair, ca []byte) Files {
	t.Helper()
	var f Files
	f.Cert, f.Key, f.CA = testca.Write(t, t.TempDir(), p, ca)
	return f
}

// shake makes a connection and reads a byte over it, each end with its own config.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		_, err = tls.Server(conn, server).Write([]byte{1})
		done <- err
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, clientErr = tls.Client(conn, client).Read(make([]byte, 1))
	_ = conn.Close()
	return <-done, clientErr
}

func node(t *testing.T, f Files) *Keeper {
	t.Helper()
	k, err := OpenNode(f)
	require.NoError(t, err)
	return k
}

func TestIdentity(t *testing.T) {
	uri, err := url.Parse("spiffe://example.org/orders")
	require.NoError(t, err)
	c := &x509.Certificate{}
	require.Empty(t, Identity(c))
	c.Subject = pkix.Name{CommonName: "cn"}
	require.Equal(t, "cn", Identity(c))
	c.DNSNames = []string{"one", "two"}
	require.Equal(t, "one", Identity(c))
	c.URIs = []*url.URL{uri}
	require.Equal(t, "spiffe://example.org/orders", Identity(c))
}

func TestBothEndsAreVerified(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	a, b := node(t, files(t, ca.Issue("a"), ca.PEM)), node(t, files(t, ca.Issue("b"), ca.PEM))
	stranger := node(t, files(t, other.Issue("b"), other.PEM))

	s, c := shake(t, a.Server(), b.Client(func(id string) error {
		require.Equal(t, "a", id)
		return nil
	}))
	require.NoError(t, s)
	require.NoError(t, c)

	_, c = shake(t, stranger.Server(), b.Client(nil))
	require.ErrorAs(t, c, new(x509.UnknownAuthorityError))
	trusting := stranger.Client(nil)
	trusting.VerifyConnection = nil
	s, c = shake(t, a.Server(), trusting)
	require.ErrorAs(t, s, new(x509.UnknownAuthorityError))
	require.Error(t, c)

	bare := b.Client(nil)
	bare.GetClientCertificate = nil
	s, c = shake(t, a.Server(), bare)
	require.ErrorContains(t, s, "didn't provide a certificate")
	require.ErrorContains(t, c, "certificate required")

	old := b.Client(nil)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, c = shake(t, a.Server(), old)
	require.ErrorContains(t, c, "protocol version not supported")
	old = a.Server()
	old.GetConfigForClient, old.Certificates = nil, []tls.Certificate{a.Current().cert}
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, c = shake(t, old, b.Client(nil))
	require.ErrorContains(t, c, "protocol version")
}

// Whoever has signed it: a certificate that was, will be, is for something else or for
// nobody is not accepted, at either end.
func TestWhatIsNotAccepted(t *testing.T) {
	ca := testca.New(t)
	good := node(t, files(t, ca.Issue("a"), ca.PEM))
	for name, test := range map[string]struct {
		identity string
		change   func(*x509.Certificate)
		server   string // what is said where a server has it
		client   string // and where a client has it
	}{
		"expired":      {"b", testca.Expired, "expired", "expired"},
		"not yet":      {"b", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "not yet valid", "not yet valid"},
		"no name":      {"", func(*x509.Certificate) {}, "has no name", "has no name"},
		"for servers":  {"b", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "", "incompatible key usage"},
		"for clients":  {"b", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, "incompatible key usage", ""},
		"for anything": {"b", func(c *x509.Certificate) { c.ExtKeyUsage = nil }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := ca.Issue(test.identity, test.change)
			pair, err := tls.X509KeyPair(p.Cert, p.Key)
			require.NoError(t, err)
			bad := &Keeper{}
			bad.current.Store(&Material{cert: pair, roots: good.Current().roots})
			says := func(err error, what string) {
				if what == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, what)
				}
			}
			_, c := shake(t, bad.Server(), good.Client(nil))
			says(c, test.server)
			s, _ := shake(t, good.Server(), bad.Client(nil))
			says(s, test.client)
		})
	}
}

func TestLoad(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	a, b := ca.Issue("a"), ca.Issue("b")
	wrong := func(f Files, field, says string) {
		t.Helper()
		_, err := OpenNode(f)
		e := new(FileError)
		require.ErrorAs(t, err, &e)
		require.Equal(t, field, e.Field)
		require.ErrorContains(t, err, says)
	}
	good := files(t, a, ca.PEM)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	wrong(Files{missing, good.Key, good.CA}, "cert", `the certificate "`+missing+`": cannot be read: no such file`)
	wrong(Files{good.Cert, missing, good.CA}, "key", "cannot be read")
	wrong(Files{good.Cert, good.Key, missing}, "ca", "cannot be read")
	wrong(Files{good.CA, good.Key, good.CA}, "cert", "do not go together")
	wrong(Files{good.Key, good.Key, good.CA}, "cert", "do not go together")
	wrong(Files{good.Cert, good.Key, good.Key}, "ca", "no certificate in it")
	wrong(files(t, testca.Pair{Cert: a.Cert, Key: b.Key}, ca.PEM), "cert", "do not go together")
	wrong(files(t, testca.Pair{Cert: []byte("x"), Key: a.Key}, ca.PEM), "cert", "no certificate in it")
	wrong(files(t, testca.Pair{Cert: a.Cert, Key: []byte("x")}, ca.PEM), "key", "no key in it")
	wrong(files(t, ca.Issue("a", testca.Expired), ca.PEM), "cert", "has expired at")
	wrong(files(t, ca.Issue("a", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), ca.PEM), "cert", "is not valid before")
	wrong(files(t, ca.Issue(""), ca.PEM), "cert", "has no name")
	wrong(files(t, ca.Issue("a", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), ca.PEM), "cert", "is not for clients")
	wrong(files(t, ca.Issue("a", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }), ca.PEM), "cert", "is not for servers")
	wrong(files(t, a, other.PEM), "cert", "is not from the CA")

	// Who only asks may be of another CA than those who answer.
	_, err := OpenClient(files(t, a, other.PEM))
	require.NoError(t, err)
	_, err = OpenNode(files(t, a, append(other.PEM, ca.PEM...)))
	require.NoError(t, err, "the CA may be several")
}

// However the files are replaced, the next connection is made of what they hold, and
// what cannot be used changes nothing.
func TestRefresh(t *testing.T) {
	ca := testca.New(t)
	dir := t.TempDir()
	// As Kubernetes does it: the files are links through a link that is replaced.
	put := func(name string, p testca.Pair) {
		t.Helper()
		testca.Write(t, filepath.Join(dir, name), p, ca.PEM)
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data")))
	}
	put("1", ca.Issue("one"))
	var f Files
	for name, to := range map[string]*string{"cert.pem": &f.Cert, "key.pem": &f.Key, "ca.pem": &f.CA} {
		*to = filepath.Join(dir, name)
		require.NoError(t, os.Symlink(filepath.Join("..data", name), *to))
	}
	k := node(t, f)
	server, client := k.Server(), k.Client(nil)
	peer := node(t, files(t, ca.Issue("peer"), ca.PEM))
	// seen is who the others see, as a server and as a client.
	seen := func() (ids [2]string) {
		s, c := shake(t, server, peer.Client(func(id string) error { ids[0] = id; return nil }))
		require.NoError(t, s)
		require.NoError(t, c)
		to := peer.Server()
		each := to.GetConfigForClient
		to.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			conf, err := each(h)
			conf.VerifyConnection = func(s tls.ConnectionState) error { ids[1] = PeerIdentity(s); return nil }
			return conf, err
		}
		s, c = shake(t, to, client)
		require.NoError(t, s)
		require.NoError(t, c)
		return ids
	}
	require.Equal(t, [2]string{"one", "one"}, seen())
	changed, err := k.Refresh()
	require.NoError(t, err)
	require.False(t, changed)

	put("2", ca.Issue("two"))
	changed, err = k.Refresh()
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, [2]string{"two", "two"}, seen())
	require.Equal(t, "two", k.Current().Identity)

	put("3", ca.Issue("three", testca.Expired))
	_, err = k.Refresh()
	require.ErrorContains(t, err, "has expired")
	require.NoError(t, os.Remove(f.Key))
	_, err = k.Refresh()
	require.ErrorContains(t, err, "cannot be read")
	require.Equal(t, [2]string{"two", "two"}, seen())

	// The CA is of the files as well.
	other := testca.New(t)
	fresh := node(t, files(t, other.Issue("fresh"), other.PEM))
	_, c := shake(t, fresh.Server(), client)
	require.ErrorAs(t, c, new(x509.UnknownAuthorityError))
	g := files(t, ca.Issue("four"), append(other.PEM, ca.PEM...))
	require.NoError(t, os.Rename(g.Key, f.Key))
	require.NoError(t, os.Rename(g.Cert, f.Cert))
	require.NoError(t, os.Rename(g.CA, f.CA))
	changed, err = k.Refresh()
	require.NoError(t, err)
	require.True(t, changed)
	_, c = shake(t, fresh.Server(), client)
	require.ErrorContains(t, c, "unknown certificate authority", "it is the other one now that does not know who calls")
}
