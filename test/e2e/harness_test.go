//go:build linux

// Package e2e runs the two programs as a user does: real processes, real files, real
// signals, on loopback.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/test/harness"
	"github.com/sluicenet/sluice/test/witness"
)

var nodeBinary, ctlBinary string

func TestMain(m *testing.M) {
	witness.Child()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-e2e")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := harness.Build(dir, "cmd/sluice-node", "cmd/sluicectl"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		nodeBinary, ctlBinary = filepath.Join(dir, "sluice-node"), filepath.Join(dir, "sluicectl")
		return m.Run()
	}())
}

// patience is how long a test waits for what should take seconds.
const patience = 60 * time.Second

// process is one running program of a test.
type process struct{ *harness.Process }

// launch starts a program. It is killed when the test ends.
func launch(t *testing.T, name, binary string, args ...string) process {
	t.Helper()
	p, err := harness.Start(name, exec.Command(binary, args...))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.Name, p.Said())
		}
	})
	return process{p}
}

// exit waits for the process and returns its exit code.
func (p process) exit(t *testing.T) int {
	t.Helper()
	code, err := p.Exit(patience)
	require.NoError(t, err)
	return code
}

// cluster hands out addresses to the nodes of one test.
type cluster struct {
	t    *testing.T
	dir  string
	seed string
	grpc map[string]string
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, dir: t.TempDir(), seed: freeAddress(t), grpc: map[string]string{}}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	return address
}

// path is a file of the test.
func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// config writes the configuration of a node with these stages, in YAML, and returns
// its path. The first node is the one that the others join.
func (c *cluster) config(name, stages string) string {
	c.t.Helper()
	bind := c.seed
	if len(c.grpc) > 0 {
		bind = freeAddress(c.t)
	}
	c.grpc[name] = freeAddress(c.t)
	text := fmt.Sprintf("version: 1\nnode: {name: %s}\nlisten: {grpc: {address: %q}}\ncluster: {name: e2e, bind: %q, join: [%q]}\nstages:\n",
		name, c.grpc[name], bind, c.seed)
	for line := range strings.Lines(strings.TrimSpace(stages)) {
		text += "  " + strings.TrimSpace(line) + "\n"
	}
	path := c.path(name + ".yaml")
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// node starts a node with these stages.
func (c *cluster) node(name, stages string, flags ...string) process {
	c.t.Helper()
	return launch(c.t, name, nodeBinary, append([]string{"run", "-c", c.config(name, stages)}, flags...)...)
}

// ctl runs sluicectl against a node, and returns what it printed and its exit code.
func (c *cluster) ctl(at string, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, ctlBinary, append(args, "-s", c.grpc[at])...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return out.String(), errs.String(), exit.ExitCode()
	}
	require.NoError(c.t, err)
	return out.String(), errs.String(), 0
}

// rows asks a node through sluicectl, and returns the rows of the answer, or nil
// when it does not answer yet.
func (c *cluster) rows(at, verb, key string) []map[string]any {
	c.t.Helper()
	out, _, code := c.ctl(at, verb, "-o", "json")
	if code != 0 && code != 3 {
		return nil
	}
	var document map[string][]map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(out), &document), out)
	return document[key]
}

// row returns the first row whose columns have these values.
func (c *cluster) row(at, verb, key string, want map[string]any) map[string]any {
	c.t.Helper()
next:
	for _, row := range c.rows(at, verb, key) {
		for column, value := range want {
			if row[column] != value {
				continue next
			}
		}
		return row
	}
	return nil
}

// eventually waits until ok returns true.
func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	require.Eventually(t, ok, patience, 50*time.Millisecond, what)
}
