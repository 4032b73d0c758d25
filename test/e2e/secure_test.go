//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/testca"
)

// Two nodes under mutual TLS, with encrypted gossip and with rules, and an operator
// with a certificate: who is allowed gets an answer, and the others get to read what to
// do.
func TestMutualTLSAndRules(t *testing.T) {
	c := newCluster(t)
	ca, other := testca.New(t), testca.New(t)
	certs := func(name string, of *testca.CA) (cert, key, caFile string) {
		return testca.Write(t, c.path(name+".certs"), of.Issue("spiffe://e2e/"+name), ca.PEM)
	}
	keys := c.path("gossip.keys")
	require.NoError(t, os.WriteFile(keys, []byte("c2x1aWNlc2x1aWNlc2x1aWNlc2x1aWNlc2x1aWNlISE=\n"), 0o600))
	run := func(name, stages string) process {
		path := c.config(name, stages)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		cert, key, caFile := certs(name, ca)
		secure := strings.Replace(string(text), "cluster: {", fmt.Sprintf("cluster: {keyring: %q, ", keys), 1) + fmt.Sprintf(`tls: {cert: %q, key: %q, ca: %q}
authorize:
  - {identities: ["spiffe://e2e/a"], may: [publish], outlets: [lines]}
  - {identities: ["spiffe://e2e/b"], may: [subscribe], outlets: [lines]}
  - {identities: ["spiffe://e2e/ops", "spiffe://e2e/a"], may: [administer]}
`, cert, key, caFile)
		require.NoError(t, os.WriteFile(path, []byte(secure), 0o600))
		return launch(t, name, nodeBinary, "run", "-c", path)
	}
	in, out := c.path("in.txt"), c.path("out.txt")
	require.NoError(t, os.WriteFile(in, []byte(strings.Repeat("line\n", 1000)), 0o600))
	a := run("a", fmt.Sprintf("lines: {source: file, with: {path: %q}}\nkeep: {source: generate, with: {rate: 1}}", in))
	run("b", fmt.Sprintf("out: {sink: file, from: lines, with: {path: %q}}", out))
	eventually(t, func() bool {
		text, _ := os.ReadFile(out)
		return strings.Count(string(text), "line\n") == 1000
	}, "everything arrives")
	require.Contains(t, a.Said(), "outlet=keep")

	as := func(name string, of *testca.CA, args ...string) (stdout, stderr string, code int) {
		cert, key, caFile := certs(name, of)
		return c.ctl("a", append(args, "--tls-cert", cert, "--tls-key", key, "--tls-ca", caFile)...)
	}
	stdout, stderr, code := as("ops", ca, "nodes", "--identity", "spiffe://e2e/*")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "a     alive")
	for name, test := range map[string]struct {
		ask  func() (string, string, int)
		says []string
	}{
		"nothing":     {func() (string, string, int) { return c.ctl("a", "nodes") }, []string{"hangs up on who speaks no TLS", "--tls-cert"}},
		"another CA":  {func() (string, string, int) { return as("ops", other, "nodes") }, []string{"does not know the CA of your certificate"}},
		"no right":    {func() (string, string, int) { return as("b", ca, "nodes") }, []string{"refuses to answer", `forbidden: no rule of node "a" allows "spiffe://e2e/b" to administer`, "allow it in authorize"}},
		"no tap":      {func() (string, string, int) { return as("ops", ca, "tap", "lines") }, []string{"refuses to answer", `to tap "lines"`}},
		"wrong node":  {func() (string, string, int) { return as("ops", ca, "nodes", "--identity", "spiffe://e2e/b") }, []string{"is not the one that you want", `"spiffe://e2e/a"`}},
		"half of TLS": {func() (string, string, int) { return c.ctl("a", "nodes", "--tls-ca", keys) }, []string{"all three"}},
	} {
		stdout, stderr, code := test.ask()
		require.NotZero(t, code, name)
		require.Empty(t, stdout, name)
		for _, s := range test.says {
			require.Contains(t, stderr, s, name)
		}
	}
}
