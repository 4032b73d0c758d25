package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sluicenet/sluice/internal/mtls"
	"github.com/sluicenet/sluice/internal/testca"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

func files(t *testing.T, p testca.Pair, ca []byte) mtls.Files {
	t.Helper()
	var f mtls.Files
	f.Cert, f.Key, f.CA = testca.Write(t, t.TempDir(), p, ca)
	return f
}

func flags(f mtls.Files, server string) []string {
	return []string{"nodes", "-s", server, "--tls-cert", f.Cert, "--tls-key", f.Key, "--tls-ca", f.CA}
}

// serveTLS is a node with TLS.
func serveTLS(t *testing.T, conf *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)))
	sluicev1.RegisterAdminServiceServer(s, &fakeNode{nodes: &sluicev1.ListNodesResponse{}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

// Each of the usual mistakes is said, with what to do about it.
func TestTLSMistakes(t *testing.T) {
	ca, other := testca.New(t), testca.New(t)
	node, err := mtls.OpenNode(files(t, ca.Issue("node.test"), ca.PEM))
	require.NoError(t, err)
	secure := serveTLS(t, node.Server())
	plain := (&fakeNode{nodes: &sluicev1.ListNodesResponse{}}).serve(t)
	mine := files(t, ca.Issue("me"), ca.PEM)
	stale := node.Server()
	pair, err := tls.X509KeyPair(func() ([]byte, []byte) { p := ca.Issue("old", testca.Expired); return p.Cert, p.Key }())
	require.NoError(t, err)
	stale.GetConfigForClient, stale.Certificates = nil, []tls.Certificate{pair}
	old := serveTLS(t, stale)

	got := sluicectl(t, append(flags(mine, secure), "--identity", "*.test")...)
	require.Equal(t, exitOK, got.code, got.stderr)

	for name, test := range map[string]struct {
		args       []string
		what, next string
	}{
		"no TLS":        {[]string{"nodes", "-s", secure}, "hangs up on who speaks no TLS", "--tls-cert"},
		"TLS to none":   {flags(mine, plain), "does not speak TLS", "leave --tls-cert"},
		"unknown CA":    {flags(files(t, ca.Issue("me"), other.PEM), secure), "is not of the CA that you trust", "--tls-ca"},
		"expired":       {flags(mine, old), "is not valid now", "issue another one for that node"},
		"other node":    {append(flags(mine, secure), "--identity", "else"), "is not the one that you want", "--identity"},
		"own expired":   {flags(files(t, ca.Issue("me", testca.Expired), ca.PEM), secure), "cannot be used", "--tls-cert"},
		"no such file":  {flags(mtls.Files{Cert: mine.Cert, Key: "missing", CA: mine.CA}, secure), "missing cannot be used", "--tls-key"},
		"no client use": {flags(files(t, ca.Issue("me", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }), ca.PEM), secure), "cannot be used", "--tls-cert"},
	} {
		got := sluicectl(t, test.args...)
		require.Equal(t, exitError, got.code, name)
		require.Contains(t, got.stderr, "error: ", name)
		require.Contains(t, got.stderr, test.what, name)
		require.Contains(t, got.stderr, "\n  try: ", name)
		require.Contains(t, got.stderr, test.next, name)
	}
	// What the node says after the handshake; how it gets here is its business.
	for alert, what := range map[string]string{
		"remote error: tls: certificate required":          "wants a certificate of yours",
		"remote error: tls: expired certificate":           "is not valid now",
		"remote error: tls: unknown certificate authority": "does not know the CA of your certificate",
		"remote error: tls: bad certificate":               "does not accept your certificate",
	} {
		f := handshakeFailure("error reading server preface: "+alert, "a:1")
		require.NotNil(t, f)
		require.Contains(t, f.what, what)
	}
	require.Nil(t, handshakeFailure("connection refused", "a:1"))

	half := sluicectl(t, "nodes", "-s", secure, "--tls-ca", mine.CA)
	require.Equal(t, exitUsage, half.code)
	require.Contains(t, half.stderr, "all three")
}
