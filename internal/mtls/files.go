package mtls

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Files are where a certificate, its key, and the CA of everybody else are, all in
// PEM. The certificate may be followed by those between it and the CA; the CA may be
// several, such as the old and the new one.
type Files struct{ Cert, Key, CA string }

// FileError is what is wrong with one of the files.
type FileError struct {
	// Field is cert, key or ca.
	Field string
	// Path is the file.
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("the %s %q: %v", fields[e.Field], e.Path, e.Err)
}

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

var fields = map[string]string{"cert": "certificate", "key": "key", "ca": "CA"}

// Material is what the files hold.
type Material struct {
	// Identity is who the certificate is for.
	Identity string
	// Expires is when the certificate is not valid any more.
	Expires time.Time

	cert  tls.Certificate
	roots *x509.CertPool
	sum   [sha256.Size]byte
}

// Load reads the files. The certificate has to be valid now, to have an identity, and
// to permit its holder to be a client. The error is a [FileError].
func Load(f Files) (*Material, error) {
	m := &Material{roots: x509.NewCertPool()}
	sum := sha256.New()
	read := func(field, path string) ([]byte, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			if e := new(os.PathError); errors.As(err, &e) {
				err = e.Err // the path is said anyway
			}
			return nil, &FileError{field, path, fmt.Errorf("cannot be read: %w", err)}
		}
		fmt.Fprintf(sum, "%d:", len(data))
		sum.Write(data)
		return data, nil
	}
	ca, err := read("ca", f.CA)
	if err != nil {
		return nil, err
	}
	cert, err := read("cert", f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read("key", f.Key)
	if err != nil {
		return nil, err
	}
	sum.Sum(m.sum[:0])
	if !m.roots.AppendCertsFromPEM(ca) {
		return nil, &FileError{"ca", f.CA, errors.New("has no certificate in it, in PEM")}
	}
	if block, _ := pem.Decode(cert); block == nil {
		return nil, &FileError{"cert", f.Cert, errors.New("has no certificate in it, in PEM")}
	}
	if block, _ := pem.Decode(key); block == nil {
		return nil, &FileError{"key", f.Key, errors.New("has no key in it, in PEM")}
	}
	if m.cert, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, &FileError{"cert", f.Cert, fmt.Errorf("and the key %q do not go together: %w", f.Key, err)}
	}
	if err := m.check(); err != nil {
		return nil, &FileError{"cert", f.Cert, err}
	}
	m.Identity, m.Expires = Identity(m.cert.Leaf), m.cert.Leaf.NotAfter
	return m, nil
}

// check looks at the own certificate, with the eyes of the others.
func (m *Material) check() error {
	leaf := m.cert.Leaf
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("has expired at %s: issue another one", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("is not valid before %s: see if the clock is right", leaf.NotBefore.UTC().Format(time.RFC3339))
	case Identity(leaf) == "":
		return errNameless
	case !permits(leaf, x509.ExtKeyUsageClientAuth):
		return errors.New("is not for clients, and nodes are both: issue it with extendedKeyUsage = serverAuth, clientAuth")
	}
	return nil
}

// CheckNode says what else is wrong with the material of a node, which others dial and
// which dials them: its own CA has to have signed it, for both. The error is a
// [FileError].
func (m *Material) CheckNode(f Files) error {
	if !permits(m.cert.Leaf, x509.ExtKeyUsageServerAuth) {
		return &FileError{"cert", f.Cert, errors.New("is not for servers, and nodes are both: issue it with extendedKeyUsage = serverAuth, clientAuth")}
	}
	between := x509.NewCertPool()
	for _, der := range m.cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := m.cert.Leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return &FileError{"cert", f.Cert, fmt.Errorf("is not from the CA %q, so that no other node would accept it: %w", f.CA, err)}
		}
	}
	return nil
}

func permits(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	none := len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0
	return none || slices.Contains(c.ExtKeyUsage, usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}
