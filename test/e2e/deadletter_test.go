//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that cannot be handled stops none of the others. It arrives once behind the
// dead-letter outlet, on a node that is told its name only, with what is wrong with it.
func TestPoisonLine(t *testing.T) {
	const count, poison = 30_000, 20_000
	c := newCluster(t)
	in, out, failed := c.path("in.txt"), c.path("out.txt"), c.path("failed.txt")
	var text, want strings.Builder
	for i := range count {
		if i == poison {
			text.WriteString("poison <&> \xff\n")
			continue
		}
		fmt.Fprintf(&text, "%d\n", i)
		fmt.Fprintf(&want, "%d\n", 2*i)
	}
	require.NoError(t, os.WriteFile(in, []byte(text.String()), 0o600))

	clerk := c.node("d", fmt.Sprintf(`clerk: {sink: file, from: failed, with: {path: %q}}`, failed))
	a := c.node("a", fmt.Sprintf(source, in))
	b := c.node("b", `double: {gate: map, from: lines, with: {expr: "string(2 * int(event))"}, on_error: {retry: {attempts: 2, delay: 10ms, then: dead_letter}}, dead_letter: failed}`)
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: double, with: {path: %q}}`, out))
	for _, p := range []process{a, b, d, clerk} {
		require.Zero(t, p.exit(t), p.Name)
	}

	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, want.String() == string(got), "all others, once and in order")
	letters, err := os.ReadFile(failed)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(letters), "\n"), "%s", letters)
	var letter struct {
		Event, Stage, Outlet, Reason, Error string
		Raw                                 []byte
		Attempts                            int
	}
	require.NoError(t, json.Unmarshal(letters, &letter))
	require.Equal(t, "poison <&> \xff", string(letter.Raw))
	require.Equal(t, "poison <&> \uFFFD", letter.Event)
	require.Equal(t, []any{"double", "lines", "handler failed", 3}, []any{letter.Stage, letter.Outlet, letter.Reason, letter.Attempts})
	require.Contains(t, letter.Error, "invalid operation: int(poison")
	require.Equal(t, 3, strings.Count(b.Said(), "events not handled"), "each try is in the log")
}

// A line that no stage can handle, wherever it goes, comes to the dead letters of the
// source when its attempts are over. A stage that fails at it ends its process, and
// whoever watches over that starts it again; nothing else is lost on the way.
func TestPoisonLineKillsTwo(t *testing.T) {
	const count, poison = 3000, 2000
	c := newCluster(t)
	in, failed := c.path("in.txt"), c.path("failed.txt")
	var text strings.Builder
	for i := range count {
		if i == poison {
			text.WriteString("poison\n")
			continue
		}
		fmt.Fprintf(&text, "%d\n", i)
	}
	require.NoError(t, os.WriteFile(in, []byte(text.String()), 0o600))
	a := c.node("a", fmt.Sprintf(`lines: {source: file, with: {path: %q}, max_attempts: 2, dead_letter: failed}`, in))
	clerk := c.node("d", fmt.Sprintf(`clerk: {sink: file, from: failed, with: {path: %q}}`, failed))
	// The sink has asked for all there is: a gate that fails holds nothing then.
	var codes []int
	seen := map[string]int{}
	for i := 0; len(codes) == 0 || codes[i-1] != 0; i++ {
		require.Less(t, i, 3, "two have had it")
		out := c.path(fmt.Sprintf("out%d.txt", i))
		b := c.node("b", fmt.Sprintf("double: {gate: map, from: lines, with: {expr: \"string(2 * int(event))\"}}\nout: {sink: file, from: {outlet: double, max_demand: %d}, with: {path: %q}}", 2*count, out))
		codes = append(codes, b.exit(t))
		data, err := os.ReadFile(out)
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			seen[line]++
		}
	}
	require.Equal(t, []int{1, 1, 0}, codes)
	require.Zero(t, a.exit(t), "what is dead-lettered is no loss")
	require.Zero(t, clerk.exit(t))
	for i := range count {
		want := 1
		if i == poison {
			want = 0
		}
		require.Equal(t, want, seen[fmt.Sprintf("%d\n", 2*i)], i)
	}
	letters, err := os.ReadFile(failed)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(letters), "\n"), "%s", letters)
	require.Contains(t, string(letters), `"event":"poison","stage":"lines","outlet":"lines","attempts":2,"reason":"attempts exhausted"`)
	require.Contains(t, string(letters), "int(poison)")
}
