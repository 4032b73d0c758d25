// Package testca is a CA for tests. Its keys are ECDSA, and made anew for each.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CA signs certificates.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// PEM is its certificate.
	PEM []byte
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// New makes a CA.
func New(t testing.TB) *CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA " + rand.Text()},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &CA{t: t, cert: cert, key: key, PEM: encode("CERTIFICATE", der)}
}

// Issue signs a certificate for an identity: a URI where it looks like one, and a DNS
// name otherwise. It is for clients and servers, valid for a day, and for what change,
// if any, makes of it.
func (c *CA) Issue(identity string, change ...func(*x509.Certificate)) Pair {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(c.t, err)
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if u, err := url.Parse(identity); err == nil && u.Scheme != "" {
		template.URIs = []*url.URL{u}
	} else if identity != "" {
		template.DNSNames = []string{identity}
	}
	for _, f := range change {
		f(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	require.NoError(c.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(c.t, err)
	return Pair{encode("CERTIFICATE", der), encode("PRIVATE KEY", private)}
}

// Expired makes a certificate one of yesterday.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(-time.Hour)
}

// Write puts a pair and a CA into a directory, as cert.pem, key.pem and ca.pem, and
// returns their paths.
func Write(t testing.TB, dir string, p Pair, ca []byte) (cert, key, caFile string) {
	t.Helper()
	cert, key, caFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(cert, p.Cert, 0o600))
	require.NoError(t, os.WriteFile(key, p.Key, 0o600))
	require.NoError(t, os.WriteFile(caFile, ca, 0o600))
	return cert, key, caFile
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
