package builtin

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

// parse reads a file of which only the stages are given.
func parse(t testing.TB, stages string) *config.File {
	t.Helper()
	f, err := config.Parse("f", []byte("version: 1\nnode: {name: n}\nstages:\n"+stages))
	require.NoError(t, err)
	return f
}

// one builds the first stage of a file.
func one(t testing.TB, env Env, text string) *Stage {
	t.Helper()
	f := parse(t, "  s: "+text+"\n")
	all, err := Build(f, env)
	require.NoError(t, err)
	return all[0]
}

// collect runs a source into memory. handed is how many events arrived.
func collect(t testing.TB, s *Stage) (events []string, err error) {
	t.Helper()
	require.NoError(t, s.Open(t.Context()))
	sink := stage.NewSink(func(_ context.Context, batch []string) error {
		events = append(events, batch...)
		return nil
	})
	stage.Connect(s.Outlet, sink)
	err = stage.Run(t.Context(), s.Runner, sink)
	require.NoError(t, s.Close())
	return events, err
}

// feed runs a sink on events.
func feed(t testing.TB, s *Stage, events ...string) error {
	t.Helper()
	require.NoError(t, s.Open(t.Context()))
	pushed := false
	source := stage.NewSource(func(context.Context, int) ([]string, error) {
		if pushed {
			return nil, stop
		}
		pushed = true
		return append([]string{}, events...), stop
	})
	stage.Connect(source, s.Inlet)
	err := stage.Run(t.Context(), source, s.Runner)
	require.NoError(t, s.Close())
	return err
}

// through runs a gate on events.
func through(t testing.TB, s *Stage, events ...string) (got []string, err error) {
	t.Helper()
	source := stage.NewSource(func(context.Context, int) ([]string, error) {
		return append([]string{}, events...), stop
	})
	sink := stage.NewSink(func(_ context.Context, batch []string) error {
		got = append(got, batch...)
		return nil
	})
	stage.Connect(source, s.Inlet)
	stage.Connect(s.Outlet, sink)
	err = stage.Run(t.Context(), source, s.Runner, sink)
	return got, err
}

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// buffer is a writer for one goroutine at a time, which may be another each time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// problems builds every stage of a file and returns what is wrong.
func problems(t *testing.T, stages string) string {
	t.Helper()
	if _, err := Build(parse(t, stages), Env{}); err != nil {
		return err.Error()
	}
	return ""
}

func TestProblems(t *testing.T) {
	wrong := func(stages string, lines ...string) {
		t.Helper()
		require.Equal(t, strings.Join(lines, "\n"), problems(t, stages))
	}
	wrong("  s: {source: flie}\n", `f:4:15: stages.s: there is no source "flie": the kinds are file, stdin, generate, did you mean "file"? [SL0120]`)
	wrong("  s: {sink: kafka, from: x}\n", `f:4:13: stages.s: there is no sink "kafka": the kinds are file, stdout [SL0120]`)
	wrong("  s: {gate: generate, from: x}\n", `f:4:13: stages.s: generate is a source, and not a gate: the kinds are filter, map [SL0120]`)

	wrong("  s: {source: file}\n", `f:4:3: stages.s.with.path: is required [SL0120]`)
	wrong("  s: {source: file, with: {path: ''}}\n", `f:4:34: stages.s.with.path: is required [SL0120]`)
	wrong("  s: {source: file, with: {path: [a]}}\n", `f:4:34: stages.s.with.path: want text, have a list [SL0105]`)
	wrong("  s: {source: file, with: {paht: x, max_line: 0}}\n",
		`f:4:27: stages.s.with.path: is required [SL0120]`,
		`f:4:28: unknown key "paht" in stages.s.with, did you mean "path"? [SL0103]`,
		`f:4:47: stages.s.with.max_line: is 0, and has to be at least 1 [SL0120]`)
	wrong("  s: {source: stdin, with: {max_line: 9223372036854775807}}\n",
		"f:4:39: stages.s.with.max_line: is 9223372036854775807, and may be at most 1073741824: a line is kept in memory [SL0120]")
	wrong("  s: {source: stdin, with: {path: x}}\n", `f:4:29: unknown key "path" in stages.s.with: it takes max_line [SL0103]`)
	wrong("  s: {source: generate, with: {count: -1, rate: -0.5}}\n",
		`f:4:39: stages.s.with.count: is -1, and has to be at least 0, which is endless [SL0120]`,
		`f:4:49: stages.s.with.rate: is -0.5, and has to be at least 0, which is no limit [SL0120]`)
	wrong("  s: {sink: file, from: x, with: {rate: -1}}\n",
		`f:4:34: stages.s.with.path: is required [SL0120]`,
		`f:4:41: stages.s.with.rate: is -1, and has to be at least 0, which is no limit [SL0120]`)
	wrong("  s: {sink: stdout, from: x, with: {rate: fast}}\n", `f:4:43: stages.s.with.rate: want a number, have the text "fast" [SL0105]`)
}

func TestConflicts(t *testing.T) {
	require.Equal(t, strings.Join([]string{
		`f:6:41: stages.c.with.path: stages.a uses that already, and would be disturbed [SL0120]`,
		`f:8:3: stages.e.with: stages.d uses that already, and would be disturbed [SL0120]`,
	}, "\n"), problems(t, `  a: {source: file, with: {path: x/y}}
  b: {source: file, with: {path: x/y}}
  c: {sink: file, from: a, with: {path: x/z/../y}}
  d: {sink: stdout, from: a}
  e: {sink: stdout, from: a}
  f: {sink: file, from: a, with: {path: /dev/null}}
  g: {sink: file, from: a, with: {path: /dev/null}}
`))
}

// Building touches nothing: what is there stays, and what is missing is not missed.
func TestBuildTouchesNothing(t *testing.T) {
	path := write(t, "kept\n")
	one(t, Env{}, "{sink: file, from: x, with: {path: "+path+"}}")
	one(t, Env{}, "{source: file, with: {path: "+path+".missing}}")
	one(t, Env{}, "{source: stdin}")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(content))
}

func TestHelpNamesEveryKindAndKey(t *testing.T) {
	require.Equal(t, len(kinds), strings.Count(Help(), "\n"))
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, k := range kinds {
		require.Contains(t, string(doc), k.kind.String()+": ")
		require.Contains(t, string(doc), k.name)
		for _, key := range strings.Split(k.keys, ", ") {
			require.Contains(t, string(doc), key)
		}
	}
}
