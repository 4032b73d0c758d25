//go:build linux

// Package examples holds the programs that the documentation shows. Each ends by
// itself, and is run here.
package examples

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const want = `[2 4 6 8 10]
[12 14 16 18 20]
[22 24 26 28 30]
[32 34 36 38 40]
`

// build compiles an example and returns the program.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(name))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

func TestQuickstart(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "quickstart")).Output()
	require.NoError(t, err)
	require.Equal(t, want, string(out))
}

func TestThreeNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	programs := []*exec.Cmd{}
	var out, logs bytes.Buffer
	for _, name := range []string{"counter", "doubler", "printer"} {
		c := exec.CommandContext(ctx, build(t, "threenodes/"+name))
		if name == "printer" {
			c.Stdout, c.Stderr = &out, &logs
		}
		programs = append(programs, c)
	}
	for _, c := range programs {
		require.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill() })
	}
	for _, c := range programs {
		require.NoError(t, c.Wait(), "%s: %s", c.Path, logs.String())
	}
	// How the numbers are cut into batches depends on how they arrive over the network.
	numbers := regexp.MustCompile(`\d+`)
	require.Equal(t, numbers.FindAllString(want, -1), numbers.FindAllString(out.String(), -1))
}

// The programs in the README are those that were run above.
func TestReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		name, code, ok := strings.Cut(strings.TrimPrefix(block[1], "// "), "\n")
		require.True(t, ok && strings.HasPrefix(name, "examples/"), "a block of code names its file in the first line: %.40q", block[1])
		file, err := os.ReadFile("../" + name)
		require.NoError(t, err)
		require.Contains(t, string(file), strings.TrimSpace(code), name)
		shown++
	}
	require.GreaterOrEqual(t, shown, 4)
}
