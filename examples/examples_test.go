//go:build linux

// Package examples holds the programs that the documentation shows. Each ends by
// itself, and is run here.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var programs string // where the examples are, built

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "sluice-examples"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(programs)
		if out, err := exec.Command("go", "build", "-o", programs+"/", "./...").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// run runs an example, and returns what it prints.
func run(t *testing.T, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var logs bytes.Buffer
	c := exec.CommandContext(ctx, filepath.Join(programs, name))
	c.Stderr = &logs
	out, err := c.Output()
	require.NoError(t, err, "%s: %s", name, logs.String())
	return string(out)
}

// Each example ends by itself, and prints this.
func TestExamples(t *testing.T) {
	for name, want := range map[string]string{
		"quickstart": `[2 4 6 8 10]
[12 14 16 18 20]
[22 24 26 28 30]
[32 34 36 38 40]
`,
		"push": `discarded: 3 (buffer overflow)
printed: [4 5 6 7 8]
printed: [9 10]
`,
		"broadcast": `sum of all: 55
even ones: [2 4 6 8 10]
`,
		"partitions": `sensor 0: [0 3 6 9]
sensor 1: [1 4 7 10]
sensor 2: [2 5 8 11]
`,
		"pool": `order 13: nobody at home
delivered: 19
`,
		"workers": `resize: 1 attempts
encode: 1 attempts
upload: 3 attempts
`,
		"supervised": `run 1, event 1
child 0 failed: restarting it and those after it
run 2, event 1
run 2, event 2
started: 2 times
`,
		"deadletter": `"three" of words: handler failed in parse after 3 attempts: strconv.Atoi: parsing "three": invalid syntax
the others add up to 12
`,
		"ratelimit": `[1 2 3]
[4 5 6]
[7 8 9]
at least 300 ms: true
`,
		"cluster": `sum of the squares up to 1000: 333833500
`,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, want, run(t, name))
		})
	}
}

func TestThreeNodes(t *testing.T) {
	for _, name := range []string{"counter", "doubler"} {
		c := exec.Command(filepath.Join(programs, name))
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			stuck := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
			defer stuck.Stop()
			require.NoError(t, c.Wait(), name)
		})
	}
	// How the numbers are cut into batches depends on how they arrive over the network.
	var want []string
	for i := 1; i <= 20; i++ {
		want = append(want, strconv.Itoa(2*i))
	}
	require.Equal(t, want, regexp.MustCompile(`\d+`).FindAllString(run(t, "printer"), -1))
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
