//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	source = `lines: {source: file, with: {path: %q}}`
	gate   = `long: {gate: filter, from: lines, with: {expr: "len(event) > 80"}}
	          loud: {gate: map, from: [{outlet: long, max_demand: 100, min_demand: 50}], with: {expr: "upper(event)"}}`
	sink = `out: {sink: file, from: loud, with: {path: %q}}`
)

// text writes a file of n lines, of all lengths around the one that is filtered for.
func text(t *testing.T, path string, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d ", i)
		for range random.IntN(20) {
			b.WriteString([]string{"water ", "finds ", "its ", "own ", "level "}[random.IntN(5)])
		}
		b.WriteByte('\n')
	}
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// shell runs a command line, as the one that a user would compare with.
func shell(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).Output()
	require.NoError(t, err)
	return string(out)
}

// One pipeline over three processes does to a file what awk and tr do, line for
// line, and everybody goes home by themselves.
func TestThreeProcesses(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 120_000)
	a := c.node("a", fmt.Sprintf(source, in))
	b := c.node("b", gate)
	d := c.node("c", fmt.Sprintf(sink, out))
	require.Zero(t, a.exit(t))
	require.Zero(t, b.exit(t))
	require.Zero(t, d.exit(t))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	want := shell(t, fmt.Sprintf("LC_ALL=C awk 'length($0) > 80' %s | LC_ALL=C tr a-z A-Z", in))
	require.Greater(t, strings.Count(want, "\n"), 20_000, "the filter lets something pass, and holds something back")
	require.True(t, want == string(got), "the output differs from that of awk and tr")
}

// The order in which the processes start does not matter.
func TestSinkStartsFirst(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 10_000)
	d := c.node("c", fmt.Sprintf(sink, out))
	eventually(t, func() bool {
		return c.row("c", "subs", "subscriptions", map[string]any{"outlet": "loud", "state": "waiting"}) != nil
	}, "the subscription is seen waiting for its outlet")
	b := c.node("b", gate)
	a := c.node("a", fmt.Sprintf(source, in))
	for _, p := range []process{a, b, d} {
		require.Zero(t, p.exit(t), p.Name)
	}
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, shell(t, fmt.Sprintf("LC_ALL=C awk 'length($0) > 80' %s | LC_ALL=C tr a-z A-Z", in)) == string(got))
}

// A sink that expects two nodes outlives the first, and takes what the second has,
// which starts only when the first is gone.
func TestSinkExpectsTwo(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 100)
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: {outlet: lines, expect: 2}, with: {path: %q}}`, out))
	require.Zero(t, c.node("a", fmt.Sprintf(source, in)).exit(t))
	require.Zero(t, c.node("b", fmt.Sprintf(source, in)).exit(t))
	require.Zero(t, d.exit(t))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	once, err := os.ReadFile(in)
	require.NoError(t, err)
	require.True(t, string(once)+string(once) == string(got), "each line from each of the two")
}

// A slow sink is felt at the source: it reads no further ahead than what all stages
// together have asked for.
func TestSlowSinkHoldsTheSource(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 200_000)
	a := c.node("a", fmt.Sprintf(source, in))
	b := c.node("b", `copy: {gate: map, from: lines, with: {expr: "event"}}`)
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: copy, with: {path: %q, rate: 1000}}`, out))
	count := func(stage, column string) float64 {
		row := c.row("c", "stages", "stages", map[string]any{"name": stage})
		if row == nil {
			return 0
		}
		return row[column].(float64)
	}
	eventually(t, func() bool { return count("out", "events_in") >= 3000 }, "the sink works")
	// Counters of one answer are taken at slightly different moments, in the order
	// source, gate, sink or any other: the sink is read first here, so that the
	// distance is at most what it seems.
	processed := count("out", "events_in")
	read := count("lines", "events_out")
	// What may be on its way: the demand of the gate, its buffer, which holds what it
	// asked for, and the demand of the sink; and what was processed in between.
	slack := count("out", "events_in") - processed
	require.LessOrEqual(t, read-processed, 1000+1000+1000+slack)
	require.Less(t, read, 20_000.0, "most of the file is unread")
	for _, p := range []process{a, b, d} {
		require.True(t, p.Running())
		peak, err := p.PeakMemory()
		require.NoError(t, err)
		require.Less(t, peak, int64(100<<20), p.Name)
	}
}

// A killed gate is reported by those that are left; its sink waits for the resume
// window, and then ends by the name of what it lost. Nothing hangs.
func TestKilledGate(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 200_000)
	a := c.node("a", fmt.Sprintf(source, in))
	b := c.node("b", `copy: {gate: map, from: lines, with: {expr: "event"}}`)
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: [{outlet: copy, resume_window: 8s}], with: {path: %q, rate: 2000}}`, out))
	eventually(t, func() bool {
		row := c.row("a", "stages", "stages", map[string]any{"name": "out"})
		return row != nil && row["events_in"].(float64) > 0
	}, "the flow flows")
	b.Kill()
	require.Equal(t, -1, b.exit(t))
	for _, at := range []string{"a", "c"} {
		eventually(t, func() bool {
			row := c.row(at, "nodes", "nodes", map[string]any{"name": "b"})
			return row != nil && (row["state"] == "suspect" || row["state"] == "dead")
		}, at+" says that b is gone")
	}
	eventually(t, func() bool {
		return c.row("a", "subs", "subscriptions", map[string]any{"outlet": "copy", "state": "reconnecting"}) != nil
	}, "the sink's subscription is seen reconnecting")
	require.NotZero(t, d.exit(t))
	require.Contains(t, d.Said(), `"copy"`)
	require.Contains(t, d.Said(), "lost")
	require.True(t, a.Running(), "the source waits for another consumer")
	a.Signal(syscall.SIGTERM)
	// What the gate had and did not acknowledge, if anything, has nobody left to go to.
	require.Contains(t, []int{0, 3}, a.exit(t))
}

// Two sinks of one outlet share its events: each line arrives once, at one of them.
func TestTwoSinksShare(t *testing.T) {
	c := newCluster(t)
	in, one, two := c.path("in.txt"), c.path("one.txt"), c.path("two.txt")
	text(t, in, 100_000)
	// Slow enough that neither has had everything before the other one is there.
	a := c.node("a", fmt.Sprintf(source, in))
	d := c.node("c", fmt.Sprintf(`one: {sink: file, from: lines, with: {path: %q, rate: 25000}}`, one))
	e := c.node("d", fmt.Sprintf(`two: {sink: file, from: lines, with: {path: %q, rate: 25000}}`, two))
	for _, p := range []process{a, d, e} {
		require.Zero(t, p.exit(t), p.Name)
	}
	all := func(paths ...string) []string {
		var lines []string
		for _, p := range paths {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			lines = append(lines, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
		}
		slices.Sort(lines)
		return lines
	}
	require.True(t, slices.Equal(all(in), all(one, two)), "each line arrived once")
	for _, p := range []string{one, two} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		require.Positive(t, info.Size(), "both had their share")
	}
}

// Killed in the middle, a sink loses nothing that it has written, and what it had not
// goes to the one that takes its place.
func TestSinkIsReplaced(t *testing.T) {
	c := newCluster(t)
	in, one, two := c.path("in.txt"), c.path("one.txt"), c.path("two.txt")
	text(t, in, 30_000)
	a := c.node("a", fmt.Sprintf(source, in))
	first := c.node("c", fmt.Sprintf(`out: {sink: file, from: lines, with: {path: %q, rate: 5000}}`, one))
	eventually(t, func() bool {
		info, err := os.Stat(one)
		return err == nil && info.Size() > 10_000
	}, "the first one writes")
	first.Kill()
	first.exit(t)
	second := c.node("c", fmt.Sprintf(`out: {sink: file, from: lines, with: {path: %q}}`, two))
	require.Zero(t, second.exit(t))
	require.Zero(t, a.exit(t))
	seen := map[string]int{}
	for _, p := range []string{one, two} {
		data, err := os.ReadFile(p)
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			seen[line]++
		}
	}
	missing := 0
	data, err := os.ReadFile(in)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if seen[line] == 0 {
			missing++
		}
	}
	require.Zero(t, missing, "no line is lost")
}

// The demo is what the README promises.
func TestDemo(t *testing.T) {
	begin := time.Now()
	p := launch(t, "demo", nodeBinary, "demo")
	require.Zero(t, p.exit(t))
	require.Contains(t, p.Printed(), "▶")
	require.Less(t, time.Since(begin), 30*time.Second)
}

// A demand that the file leaves to the consumer comes down when that is slow, says why,
// and loses nothing.
func TestAutoDemand(t *testing.T) {
	c := newCluster(t)
	in, out := c.path("in.txt"), c.path("out.txt")
	text(t, in, 4000)
	a := c.node("a", fmt.Sprintf(source, in))
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: {outlet: lines, auto_demand: {min: 10, max: 2000}}, with: {path: %q, rate: 1000}}`, out))
	eventually(t, func() bool {
		row := c.row("c", "subs", "subscriptions", map[string]any{"outlet": "lines", "consumer_stage": "out"})
		return row != nil && row["max_demand"].(float64) < 1000 && strings.Contains(row["reason"].(string), "the consumer is the brake")
	}, "the demand comes down, and it is said why")
	require.Zero(t, a.exit(t))
	require.Zero(t, d.exit(t))
	want, err := os.ReadFile(in)
	require.NoError(t, err)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "every line once, in order")
}
