package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Identity is who a certificate is for: its first URI, or else its first DNS name, or
// else the common name of its subject. It is empty where there is none of them.
func Identity(c *x509.Certificate) string {
	switch {
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	}
	return c.Subject.CommonName
}

// PeerIdentity is who is at the other end of a connection that was verified, or empty
// where nobody has shown a certificate.
func PeerIdentity(s tls.ConnectionState) string {
	if len(s.PeerCertificates) == 0 {
		return ""
	}
	return Identity(s.PeerCertificates[0])
}

var errNameless = errors.New("has no name: no URI, no DNS name, no common name")
