package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/internal/authz"
	"github.com/sluicenet/sluice/internal/mtls"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// credentials are those that the flags name: none, or all of mutual TLS.
func (a *app) credentials() (credentials.TransportCredentials, error) {
	switch {
	case a.tls == mtls.Files{} && a.identity == "":
		return insecure.NewCredentials(), nil
	case a.tls.Cert == "" || a.tls.Key == "" || a.tls.CA == "":
		return nil, &usageError{"TLS takes --tls-cert, --tls-key and --tls-ca, all three: a node verifies who asks"}
	}
	k, err := mtls.OpenClient(a.tls)
	if e := new(mtls.FileError); errors.As(err, &e) {
		return nil, &failure{
			what: fmt.Sprintf("%s cannot be used", e.Path),
			why:  err.Error(),
			next: fmt.Sprintf("name another file with --tls-%s, or in SLUICE_TLS_%s", e.Field, strings.ToUpper(e.Field)),
		}
	}
	return credentials.NewTLS(k.Client(func(identity string) error {
		if a.identity != "" && !authz.Match(a.identity, identity) {
			return fmt.Errorf("%s %q, and --identity wants %q", otherIdentity, identity, a.identity)
		}
		return nil
	})), nil
}

const otherIdentity = "the node is"

// hints are what a failed handshake means, by the words that TLS has for it.
var hints = []struct{ words, what, next string }{
	{"first record does not look like a TLS handshake", "the node at %s does not speak TLS",
		"leave --tls-cert, --tls-key and --tls-ca away, and unset SLUICE_TLS_CERT, SLUICE_TLS_KEY and SLUICE_TLS_CA"},
	{"signed by unknown authority", "the certificate of the node at %s is not of the CA that you trust",
		"name the CA of that cluster with --tls-ca, or see if that is the node that you mean"},
	{"certificate has expired or is not yet valid", "the certificate of the node at %s is not valid now",
		"issue another one for that node, which reads it by itself, or see if the clock of this machine is right"},
	{otherIdentity, "the node at %s is not the one that you want", "see if --server and --identity are about the same node"},
	{"tls: certificate required", "the node at %s wants a certificate of yours", "name one with --tls-cert and --tls-key"},
	{"tls: expired certificate", "the node at %s finds that your certificate is not valid now",
		"issue another one for --tls-cert, or see if the clock of that machine is right"},
	{"tls: unknown certificate authority", "the node at %s does not know the CA of your certificate",
		"name a certificate of the CA of that cluster with --tls-cert and --tls-key"},
	{"tls: bad certificate", "the node at %s does not accept your certificate",
		"see in the log of that node why, and name another one with --tls-cert and --tls-key"},
}

// hungUp are the words for a connection that the node has closed before it said
// anything: which of them it is depends on who was faster.
var hungUp = []string{"EOF", "connection reset by peer", "broken pipe"}

// handshakeFailure explains an error that is about TLS, and is nil for all others.
func handshakeFailure(why, server string) *failure {
	for _, h := range hints {
		if strings.Contains(why, h.words) {
			return &failure{what: fmt.Sprintf(h.what, server), why: why, next: h.next}
		}
	}
	for _, w := range hungUp {
		if strings.Contains(why, "error reading server preface: ") && strings.HasSuffix(why, w) {
			return &failure{
				what: fmt.Sprintf("the node at %s hangs up on who speaks no TLS, or is none", server), why: why,
				next: "name a certificate with --tls-cert, --tls-key and --tls-ca, or in SLUICE_TLS_CERT, SLUICE_TLS_KEY and SLUICE_TLS_CA",
			}
		}
	}
	return nil
}

// forbidden is what a node does not let the caller do, in its own words.
func forbidden(err error, server string) *failure {
	f := &failure{what: server + " refuses to answer", why: reason(err), next: "ask whoever runs that node for the permission"}
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*sluicev1.Refusal); ok {
			f.why = r.GetRule() + ": " + r.GetWhat()
			if r.GetHint() != "" {
				f.next = r.GetHint()
			}
		}
	}
	return f
}
