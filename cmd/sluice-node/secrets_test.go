package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/testca"
)

// The files that secure a node are read before it runs, and what is wrong with them has
// the place where they are named. run says the same.
func TestValidateReadsSecrets(t *testing.T) {
	const file = "version: 1\nnode: {name: a}\ntls:\n  cert: cert.pem\n  key: key.pem\n  ca: ca.pem\n" +
		"cluster: {keyring: keys}\nstages: {s: {source: stdin}}\n"
	put := func(name, content string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.WriteFile(name, []byte(content), 0o600)) }
	}
	remove := func(name string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.Remove(name)) }
	}
	ca, other := testca.New(t), testca.New(t)
	for name, c := range map[string]struct {
		spoil func(*testing.T)
		says  string
	}{
		"all is well":         {func(*testing.T) {}, ""},
		"missing certificate": {remove("cert.pem"), `f.yaml:4:9: tls.cert: the certificate "cert.pem": cannot be read: no such file`},
		"missing key":         {remove("key.pem"), `f.yaml:5:8: tls.key: the key "key.pem": cannot be read: no such file`},
		"missing CA":          {remove("ca.pem"), `f.yaml:6:7: tls.ca: the CA "ca.pem": cannot be read: no such file`},
		"bad certificate":     {put("cert.pem", "junk"), `f.yaml:4:9: tls.cert: the certificate "cert.pem": has no certificate in it`},
		"bad key":             {put("key.pem", "junk"), `f.yaml:5:8: tls.key: the key "key.pem": has no key in it`},
		"bad CA":              {put("ca.pem", "junk"), `f.yaml:6:7: tls.ca: the CA "ca.pem": has no certificate in it`},
		"another key":         {put("key.pem", string(ca.Issue("a").Key)), `f.yaml:4:9: tls.cert: the certificate "cert.pem": and the key "key.pem" do not go together`},
		"another CA":          {put("ca.pem", string(other.PEM)), `f.yaml:4:9: tls.cert: the certificate "cert.pem": is not from the CA "ca.pem"`},
		"expired": {func(t *testing.T) { testca.Write(t, ".", ca.Issue("a", testca.Expired), ca.PEM) },
			`f.yaml:4:9: tls.cert: the certificate "cert.pem": has expired at`},
		"missing keyring": {remove("keys"), "f.yaml:7:20: cluster.keyring: open keys: no such file"},
		"bad keyring":     {put("keys", "junk!"), "f.yaml:7:20: cluster.keyring: keys:1: this is not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			testca.Write(t, ".", ca.Issue("a"), ca.PEM)
			put("keys", "AAECAwQFBgcICQoLDA0ODw==\n")(t)
			put("f.yaml", file)(t)
			c.spoil(t)
			got := call(t.Context(), "validate", "-c", "f.yaml")
			if c.says == "" {
				require.Equal(t, exitOK, got.code, got.stderr)
				return
			}
			require.Equal(t, exitConfig, got.code)
			require.Contains(t, got.stderr, c.says)
			require.Equal(t, got, call(t.Context(), "run", "-c", "f.yaml"))
		})
	}
}
