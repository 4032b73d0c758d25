package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/internal/mtls"
	"github.com/sluicenet/sluice/pkg/node"
)

// secrets says what is wrong with the certificate and the keys that a file names.
func secrets(f *config.File) (errs []error) {
	if f.TLS != (config.TLS{}) {
		_, err := mtls.OpenNode(mtls.Files(f.TLS))
		if e := new(mtls.FileError); errors.As(err, &e) {
			errs = append(errs, f.Errorf(f.Pos("tls", e.Field), "tls.%s: %v", e.Field, e))
		}
	}
	if f.Cluster.Keyring != "" {
		if _, err := node.ReadKeyring(f.Cluster.Keyring); err != nil {
			errs = append(errs, f.Errorf(f.Pos("cluster", "keyring"), "cluster.keyring: %v", err))
		}
	}
	return errs
}

// soon is when a certificate is about to expire.
const soon = 7 * 24 * time.Hour

// expiring says that the certificate of a file is about to expire, or nothing.
func expiring(f *config.File) error {
	if f.TLS == (config.TLS{}) {
		return nil
	}
	m, err := mtls.Load(mtls.Files(f.TLS))
	if err != nil || time.Until(m.Expires) > soon {
		return nil
	}
	at := f.Pos("tls", "cert")
	return &config.Error{File: f.Path, Line: at.Line, Col: at.Col,
		What: fmt.Sprintf("note: the certificate %q of %q expires at %s", f.TLS.Cert, m.Identity, m.Expires.UTC().Format(time.RFC3339))}
}
