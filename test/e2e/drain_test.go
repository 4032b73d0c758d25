//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const copying = `copy: {gate: map, from: [{outlet: lines, max_demand: 500, min_demand: 250}], with: {expr: "event"}}`

// The gate in the middle is told to stop while events flow: it hands over what it has,
// leaves, and another one takes its place. No line is lost, and none comes twice.
func TestDrainedGate(t *testing.T) {
	c := newCluster(t)
	in, one, two := c.path("in.txt"), c.path("one.txt"), c.path("two.txt")
	text(t, in, 60_000)
	a := c.node("a", fmt.Sprintf(source, in))
	b := c.node("b", copying)
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: copy, with: {path: %q, rate: 10000}}`, one))
	eventually(t, func() bool {
		row := c.row("a", "stages", "stages", map[string]any{"name": "out"})
		return row != nil && row["events_in"].(float64) > 2000
	}, "the flow flows")
	begin := time.Now()
	b.Signal(syscall.SIGTERM)
	require.Zero(t, b.exit(t), "everything that it had is handed over")
	require.Less(t, time.Since(begin), 30*time.Second)
	require.True(t, a.Running(), "the source waits for another gate")

	e := c.node("d", copying)
	f := c.node("e", fmt.Sprintf(`out: {sink: file, from: copy, with: {path: %q}}`, two))
	for _, p := range []process{d, f, e, a} {
		require.Zero(t, p.exit(t), p.Name)
	}
	var lines []string
	for _, path := range []string{one, two} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		lines = append(lines, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
	}
	slices.Sort(lines)
	want, err := os.ReadFile(in)
	require.NoError(t, err)
	all := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	slices.Sort(all)
	require.Equal(t, len(all), len(lines))
	require.True(t, slices.Equal(all, lines), "each line arrived once")
}

// A second signal cuts a drain that waits, and the exit code says which one it was.
func TestSecondSignalCuts(t *testing.T) {
	c := newCluster(t)
	in := c.path("in.txt")
	text(t, in, 10_000)
	a := c.node("a", fmt.Sprintf(source, in))
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: lines, with: {path: %q, rate: 50}}`, c.path("out.txt")))
	eventually(t, func() bool {
		row := c.row("a", "stages", "stages", map[string]any{"name": "out"})
		return row != nil && row["events_in"].(float64) > 0
	}, "the flow flows")
	a.Signal(syscall.SIGTERM)
	eventually(t, func() bool { return strings.Contains(a.Said(), "draining") }, "it drains")
	require.True(t, a.Running())
	a.Signal(syscall.SIGINT)
	require.Equal(t, 130, a.exit(t))
	require.Contains(t, a.Said(), "second signal")
	require.True(t, d.Running(), "its consumer still has what it received")
}
