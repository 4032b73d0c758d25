package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// binary builds the program, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-node-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sluice-node")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// program runs the program itself, with a directory of its own for temporary files.
func program(t *testing.T, args ...string) (result, string) {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}, tmp
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

const demoEnd = `
    node a           node b                        node c
  ┌────────┐       ┌─────────────────────┐       ┌────────┐
  │ lines  │  226  │ kept ── 15 ──▶ loud │  15   │ out    │
  │ file   │ ────▶ │ filter         map  │ ────▶ │ stdout │
  └────────┘       └─────────────────────┘       └────────┘

  SUBSCRIPTION             ASKED   SENT  ACKED
  lines @a ──▶ kept  @b    1,000    226    226
  kept  @b ──▶ loud  @b    1,000     15     15
  loud  @b ──▶ out   @c    1,000     15     15

  Nothing was sent that was not asked for, and all of it was acknowledged.
`

func TestDemo(t *testing.T) {
	got, tmp := program(t, "demo")
	require.Equal(t, exitOK, got.code, got.stderr)
	poem, graph, found := strings.Cut(got.stdout, "\n\n")
	require.True(t, found)
	require.Equal(t, demoEnd, "\n"+graph)
	require.Equal(t, 15, strings.Count(poem+"\n", "\n"))
	require.Contains(t, poem, "WATER, WATER, EVERY WHERE,\nWATER, WATER, EVERY WHERE,\n")
	require.Contains(t, got.stderr, "Three nodes")
	require.NotContains(t, got.stdout, "\x1b", "no colour where there is no terminal")
	for line := range strings.Lines(got.stdout) {
		require.LessOrEqual(t, width(line), 80)
	}
	empty(t, tmp)
}

func TestDemoOfAFile(t *testing.T) {
	var text, want strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d lines\n\n", i)
		fmt.Fprintf(&want, "<%d lines>\n", i)
	}
	path := filepath.Join(t.TempDir(), "many.txt")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	got, tmp := program(t, "demo", path, "--map", `"<" + event + ">"`)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.True(t, strings.HasPrefix(got.stdout, want.String()+"\n"), "the lines, in their order")
	require.Contains(t, got.stdout, "40,000  │ kept ── 20,000 ──▶ loud │  20,000")
	empty(t, tmp)
}

func TestDemoFails(t *testing.T) {
	got, tmp := program(t, "demo", "--map", "string(int(event))")
	require.Equal(t, exitError, got.code)
	require.Contains(t, got.stderr, `sluice-node: demo: node "b" failed (exit status 1); this is its log:`)
	require.Contains(t, got.stderr, `for the event "Out of the sea came he!"`)
	require.NotContains(t, got.stdout, "SUBSCRIPTION")
	empty(t, tmp)

	missing := filepath.Join(t.TempDir(), "no.txt")
	got, tmp = program(t, "demo", missing)
	require.Equal(t, result{code: exitError, stderr: "sluice-node: open " + missing + ": no such file or directory\n"}, got)
	empty(t, tmp)
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, number(n))
	}
}
