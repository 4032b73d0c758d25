package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
)

// Keeper holds what the files hold, and makes connections of it. It is safe for
// concurrent use.
type Keeper struct {
	files   Files
	check   func(*Material) error
	current atomic.Pointer[Material]
}

// OpenNode reads the files of a node, which is client and server. The error is a
// [FileError].
func OpenNode(f Files) (*Keeper, error) {
	return open(f, func(m *Material) error { return m.CheckNode(f) })
}

// OpenClient reads the files of a client. The error is a [FileError].
func OpenClient(f Files) (*Keeper, error) {
	return open(f, func(*Material) error { return nil })
}

func open(f Files, check func(*Material) error) (*Keeper, error) {
	k := &Keeper{files: f, check: check}
	_, err := k.Refresh()
	return k, err
}

// Refresh reads the files again, and reports whether they have changed. With an error,
// what was there before stays.
func (k *Keeper) Refresh() (changed bool, err error) {
	m, err := Load(k.files)
	if err == nil {
		err = k.check(m)
	}
	if err != nil {
		return false, err
	}
	if before := k.current.Load(); before != nil && before.sum == m.sum {
		return false, nil
	}
	k.current.Store(m)
	return true, nil
}

// Current is what is used for new connections.
func (k *Keeper) Current() *Material { return k.current.Load() }

// Server is how a server takes connections: who comes has to show a certificate.
func (k *Keeper) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			m := k.current.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS13,
				NextProtos: protocols,
				// Who resumed a session would be verified by what was on disk when that began.
				SessionTicketsDisabled: true,
				Certificates:           []tls.Certificate{m.cert},
				ClientAuth:             tls.RequireAndVerifyClientCert,
				ClientCAs:              m.roots,
				VerifyConnection:       named,
			}, nil
		},
	}
}

// Client is how a client makes connections. The server is verified by the CA, not by
// its address; expect, unless it is nil, looks at its identity.
func (k *Keeper) Client(expect func(identity string) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		// The address is not what is verified. VerifyConnection does the rest of it.
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &k.current.Load().cert, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := verifyServer(s, k.current.Load().roots); err != nil {
				return err
			}
			if err := named(s); err != nil || expect == nil {
				return err
			}
			return expect(PeerIdentity(s))
		},
	}
}

// protocols are those of gRPC.
var protocols = []string{"h2"}

func verifyServer(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

func named(s tls.ConnectionState) error {
	if PeerIdentity(s) == "" {
		return fmt.Errorf("the certificate of the peer %w", errNameless)
	}
	return nil
}
