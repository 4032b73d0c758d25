package node

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// T8: bound to all interfaces, memberlist picks the address that others are told by
// itself, of another family at times, or none at all.
func TestAddressBehindAllInterfaces(t *testing.T) {
	t.Parallel()
	addresses := func(all ...string) (out []netip.Addr) {
		for _, a := range all {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	for _, test := range []struct {
		bind, want string
		have       []string
	}{
		{"0.0.0.0", "203.0.113.7", []string{"127.0.0.1", "::1", "fe80::1", "fd00::2", "203.0.113.7", "10.0.0.1"}},
		{"0.0.0.0", "127.0.0.1", []string{"127.0.0.1", "fd00::2"}},
		{"::", "10.0.0.1", []string{"fd00::2", "10.0.0.1"}},
		{"::", "fd00::2", []string{"::1", "fe80::1", "fd00::2"}},
		{"::", "::1", nil},
	} {
		require.Equal(t, test.want, outward(netip.MustParseAddr(test.bind), addresses(test.have...)).String(), "%+v", test)
	}
	a := testNode("a", Config{Listen: "0.0.0.0:0"})
	start(t, a)
	for _, address := range []string{a.Address(), a.GossipAddress()} {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		require.False(t, net.ParseIP(host).IsUnspecified(), address)
		require.NotEqual(t, "0", port, address)
	}
}

// G11: gRPC waits for up to two minutes between two attempts to connect, and twenty
// seconds for one. Neither may take as long as a resume window.
func TestConnectionsAreSoughtSoon(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, connecting.Backoff.MaxDelay, 2*time.Second)
	require.LessOrEqual(t, connecting.MinConnectTimeout, 5*time.Second)
}

// Every trap of docs/traps.md has the test that is named there, whose comment begins with
// the name of the trap, and every trap that a test names is there.
func TestTrapsAreTested(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/traps.md")
	require.NoError(t, err)
	listed := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([TG]\\d+) \\|.*\\| `(Test\\w+)` \\|$").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = append(listed[m[1]], m[2])
	}
	tested := map[string][]string{}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			if m := regexp.MustCompile(`^([TG]\d+): `).FindStringSubmatch(fn.Doc.Text()); m != nil {
				tested[m[1]] = append(tested[m[1]], fn.Name.Name)
			}
		}
	}
	require.Equal(t, tested, listed)
	for _, must := range []string{
		"T1", "T2", "T5", "T6", "T7", "T8", "T9", "T10", "T11", "T17", "T22",
		"G1", "G4", "G5", "G6", "G9", "G11", "G14",
	} {
		require.NotEmpty(t, tested[must], must)
	}
}
