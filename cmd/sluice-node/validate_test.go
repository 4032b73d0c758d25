package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

// result is what a command line has done.
type result struct {
	code           int
	stdout, stderr string
}

func noEnv(string) string { return "" }

func call(ctx context.Context, args ...string) result {
	var out, errs locking
	code := run(ctx, args, strings.NewReader(""), &out, &errs, noEnv)
	return result{code, out.String(), errs.String()}
}

// What validate says of a file is in the file beside it.
func TestValidate(t *testing.T) {
	t.Chdir("testdata/validate")
	files, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			got := call(t.Context(), "validate", "-c", file)
			said := "stdout\n" + got.stdout + "stderr\n" + got.stderr
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(said), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), said)
			if strings.HasPrefix(got.stdout, file+": ok") {
				require.Equal(t, exitOK, got.code)
			} else {
				require.Equal(t, exitConfig, got.code)
				require.Empty(t, got.stdout)
			}
		})
	}
	_, err = os.Stat("missing")
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was made")
}

// The files that are there to be copied can be run.
func TestValidateExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/yaml/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.Equal(t, exitOK, call(t.Context(), "validate", "-c", file).code, file)
	}
}

// run says the same of a file that is wrong, and starts nothing.
func TestRunOfABadFile(t *testing.T) {
	for _, file := range []string{"shape", "kinds", "broken"} {
		path := filepath.Join("testdata", "validate", file+".yaml")
		checked, ran := call(t.Context(), "validate", "-c", path), call(t.Context(), "run", "-c", path)
		require.Equal(t, checked, ran)
		require.Equal(t, exitConfig, ran.code)
	}
}

func TestNoFile(t *testing.T) {
	for _, verb := range []string{"run", "validate"} {
		require.Equal(t, result{code: exitConfig, stderr: "sluice-node: the configuration cannot be read: open no.yaml: no such file or directory\n"},
			call(t.Context(), verb, "-c", "no.yaml"))
		require.Equal(t, result{code: exitUsage, stderr: "sluice-node: it needs a configuration file: -c FILE\n  try: sluice-node " + verb + " --help\n"},
			call(t.Context(), verb))
	}
}

func TestUsage(t *testing.T) {
	usage := func(want string, args ...string) {
		t.Helper()
		got := call(t.Context(), args...)
		require.Equal(t, exitUsage, got.code)
		require.Empty(t, got.stdout)
		require.Equal(t, "sluice-node: "+want+" --help\n", got.stderr)
	}
	usage("unknown flag: --fast\n  try: sluice-node run", "run", "--fast")
	usage("run takes no arguments, not \"x\"\n  try: sluice-node run", "run", "x")
	usage("demo takes one file, not 2\n  try: sluice-node demo", "demo", "a", "b")
	usage("--log-level wants debug, info, warn or error, not loud\n  try: sluice-node run", "run", "-c", "testdata/validate/good.yaml", "--log-level", "loud")
	usage("--log-format wants text or json, not xml\n  try: sluice-node run", "run", "-c", "testdata/validate/good.yaml", "--log-format", "xml")
	usage("stages.kept.with.expr: expected bool, but got string\n  try: sluice-node demo", "demo", "--filter", "event")

	got := call(t.Context(), "rnu")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "Did you mean this?\n\trun")
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"validate", "--help"}, {"demo", "--help"}} {
		got := call(t.Context(), args...)
		require.Equal(t, exitOK, got.code)
		require.Empty(t, got.stderr)
		before, _, _ := strings.Cut(got.stdout, "Usage:")
		for line := range strings.Lines(before) {
			require.LessOrEqual(t, len([]rune(line)), 101, line)
		}
	}
	require.Contains(t, call(t.Context(), "--help").stdout, "sink    stdout    rate ")
	for _, key := range []string{"from", "on_error", "max_attempts", "dead_letter"} {
		require.Regexp(t, `(?m)^  `+key+` +\w`, call(t.Context(), "--help").stdout)
	}
	require.Regexp(t, `^sluice-node \S+.*, go1\.`, call(t.Context(), "version").stdout)
}
