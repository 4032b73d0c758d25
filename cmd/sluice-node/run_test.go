package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// locking is a buffer that several goroutines use.
type locking struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *locking) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locking) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// process is a run of a file inside the test.
type process struct {
	stdout, stderr locking
	stop           context.CancelCauseFunc
	code           chan int
}

// start runs stages as a node, and waits until it is up or over. Others join it at
// gossip.
func start(t *testing.T, name, stages string, join ...string) (p *process, gossip string) {
	t.Helper()
	for i := range join {
		join[i] = `"` + join[i] + `"`
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	text := fmt.Sprintf("version: 1\nnode: {name: %s}\nlisten: {grpc: {address: '127.0.0.1:0'}}\ncluster: {name: test, bind: '127.0.0.1:0', join: [%s]}\nstages:\n%s",
		name, strings.Join(join, ", "), stages)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	ctx, stop := context.WithCancelCause(t.Context())
	p = &process{stop: stop, code: make(chan int, 1)}
	go func() {
		p.code <- run(ctx, []string{"run", "-c", path, "--log-format", "json"}, strings.NewReader("from\nstdin\n"), &p.stdout, &p.stderr, noEnv)
	}()
	t.Cleanup(func() { stop(nil) })
	require.Eventually(t, func() bool {
		if len(p.code) > 0 {
			return true
		}
		for line := range strings.Lines(p.stderr.String()) {
			var r record
			if json.Unmarshal([]byte(line), &r) == nil && r.Msg == "node started" {
				gossip = r.Gossip
			}
		}
		return gossip != ""
	}, 10*time.Second, time.Millisecond)
	return p, gossip
}

func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.code:
		return code
	case <-time.After(30 * time.Second):
		require.Fail(t, "it did not end", "%s", p.stderr.String())
		return -1
	}
}

// said returns the errors in the log.
func (p *process) said() []string {
	var all []string
	for line := range strings.Lines(p.stderr.String()) {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil && r.Level == "ERROR" {
			all = append(all, r.Msg)
		}
	}
	return all
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	p, _ := start(t, "a", fmt.Sprintf(`
  many: {source: generate, with: {count: 20000}}
  few:  {gate: filter, from: many, with: {expr: 'event endsWith "7"'}}
  loud: {gate: map, from: few, with: {expr: 'upper(event)'}}
  out:  {sink: file, from: loud, with: {path: %s/out.txt}}
  in:   {source: stdin}
  show: {sink: stdout, from: in}
`, dir))
	require.Equal(t, exitOK, p.wait(t))
	require.Equal(t, "from\nstdin\n", p.stdout.String())
	var want strings.Builder
	for i := 7; i <= 20000; i += 10 {
		fmt.Fprintf(&want, "EVENT %d\n", i)
	}
	got, err := os.ReadFile(dir + "/out.txt")
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got))
	require.Empty(t, p.said())
}

func TestThreeNodes(t *testing.T) {
	a, seed := start(t, "a", "  many: {source: generate, with: {count: 5000}}\n")
	c, second := start(t, "c", "  out: {sink: stdout, from: loud}\n", seed)
	b, _ := start(t, "b", "  loud: {gate: map, from: many, with: {expr: upper(event)}}\n", seed, second)
	for _, p := range []*process{a, b, c} {
		require.Equal(t, exitOK, p.wait(t))
		require.Empty(t, p.said())
	}
	require.Equal(t, 5000, strings.Count(c.stdout.String(), "EVENT "))
	require.Contains(t, c.stderr.String(), `"received":5000,"acked":5000`)
}

// A stage that reads several outlets goes on until all of them have ended.
func TestSeveralOutlets(t *testing.T) {
	a, seed := start(t, "a", "  early: {source: generate, with: {count: 10, text: early}}\n")
	b, _ := start(t, "b", `
  late:   {source: generate, with: {count: 30, rate: 100, text: late}}
  local:  {source: generate, with: {count: 10, text: local}}
  both:   {gate: map, from: [early, late, local], with: {expr: event}}
  out:    {sink: stdout, from: both}
`, seed)
	require.Equal(t, exitOK, a.wait(t))
	require.Equal(t, exitOK, b.wait(t))
	require.Empty(t, b.said())
	for word, n := range map[string]int{"early": 10, "late": 30, "local": 10} {
		require.Equal(t, n, strings.Count(b.stdout.String(), word+"\n"), word)
	}
}

// One of several outlets that does not end well is enough.
func TestOneOfSeveralFails(t *testing.T) {
	p, _ := start(t, "a", `
  good: {source: generate}
  bad:  {source: generate, with: {count: 3, text: x}}
  sour: {gate: map, from: bad, with: {expr: 'string(int(event))'}}
  out:  {sink: stdout, from: [good, sour]}
`)
	require.Equal(t, exitError, p.wait(t))
	require.Equal(t, []string{`stage "sour": expr: invalid operation: int(x), at column 8 of it, for the event "x"`}, p.said(),
		"what follows from it is not said again")
}

// What is skipped on purpose is said, with the reason, and is no failure; what is given up
// otherwise is one.
func TestSkipped(t *testing.T) {
	stages := `
  in:   {source: generate, with: {count: 3, text: "{n}"}}
  few:  {gate: map, from: in, with: {expr: 'event == "2" ? string(int("x")) : event'}, on_error: %s}
  out:  {sink: stdout, from: few}
`
	p, _ := start(t, "a", fmt.Sprintf(stages, "skip"))
	require.Equal(t, exitOK, p.wait(t), p.stderr.String())
	require.Equal(t, "1\n3\n", p.stdout.String())
	require.Contains(t, p.stderr.String(), `"msg":"events not handled","stage":"few","why":"expr: `)
	require.Contains(t, p.stderr.String(), `"msg":"events discarded","stage":"few","reason":"handler failed","count":1`)
	require.Contains(t, p.stderr.String(), `"discarded: handler failed":1`)

	p, _ = start(t, "a", fmt.Sprintf(stages, "{retry: {attempts: 1, delay: 1ms}}"))
	require.Equal(t, exitError, p.wait(t))
	require.Len(t, p.said(), 1)
}

// Dead letters are an outlet like others: it is read in the same file, and when nobody
// reads it, what it has is kept, and a drain says that it was left.
func TestDeadLetter(t *testing.T) {
	stages := `
  in:   {source: generate, with: {count: 3, text: "{n}"}}
  few:  {gate: map, from: in, with: {expr: 'event == "2" ? string(int("x")) : event'}, on_error: dead_letter, dead_letter: failed}
  rest: {sink: file, from: few, with: {path: /dev/null}}
`
	p, _ := start(t, "a", stages+"  out:  {sink: stdout, from: failed}\n")
	require.Equal(t, exitOK, p.wait(t), p.stderr.String())
	require.Equal(t, 1, strings.Count(p.stdout.String(), "\n"))
	require.Contains(t, p.stdout.String(), `"event":"2","stage":"few","outlet":"in","attempts":1,"reason":"handler failed","error":"expr: `)
	require.Contains(t, p.stderr.String(), `"dead letters":1`)

	p, _ = start(t, "a", stages)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), `"stage":"rest","state":"ended"`) }, 10*time.Second, time.Millisecond)
	p.stop(nil)
	require.Equal(t, exitLeft, p.wait(t), p.stderr.String())
	require.Contains(t, p.stderr.String(), `"stage":"failed","count":1`)
}

// The example does what it says.
func TestDeadLetterExample(t *testing.T) {
	var out, errs locking
	code := run(t.Context(), []string{"run", "-c", "../../examples/yaml/deadletter.yaml"}, strings.NewReader("1\n2\nthree\n4\n"), &out, &errs, noEnv)
	require.Equal(t, exitOK, code, errs.String())
	require.Regexp(t, `^(\{"time":"[^"]+","event":"three",.*\}|\d\n){4}$`, strings.ReplaceAll(out.String(), "}\n", "}"))
	for _, line := range []string{"2\n", "4\n", "8\n"} {
		require.Contains(t, out.String(), line)
	}
}

func TestStop(t *testing.T) {
	p, _ := start(t, "a", "  endless: {source: generate}\n  both: {gate: map, from: endless, with: {expr: event}}\n  out: {sink: stdout, from: [both, never]}\n")
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "event 1000\n") }, 10*time.Second, time.Millisecond)
	p.stop(errors.New("it is late"))
	require.Equal(t, exitOK, p.wait(t))
	require.Empty(t, p.said())
	require.Contains(t, p.stderr.String(), `"why":"it is late"`)
	// Everything that was produced has arrived, in order.
	lines := strings.Split(strings.TrimSuffix(p.stdout.String(), "\n"), "\n")
	for i, line := range lines {
		require.Equal(t, fmt.Sprintf("event %d", i+1), line)
	}
}

// What a consumer that has failed gives back has nobody to go to when the node is told
// to stop: it is counted in the log, and the exit code says so.
func TestStopWithEventsLeft(t *testing.T) {
	a, seed := start(t, "a", "  endless: {source: generate}\n  all: {gate: map, from: endless, with: {expr: event}}\n")
	b, _ := start(t, "b", "  out: {sink: file, from: all, with: {path: /dev/full}}\n", seed)
	require.Equal(t, exitError, b.wait(t))
	require.Empty(t, a.code, "it waits for another consumer")
	a.stop(errors.New("it is late"))
	require.Equal(t, exitLeft, a.wait(t), a.stderr.String())
	require.Empty(t, a.said(), "nothing went wrong")
	require.Regexp(t, `"events were left when the stage had drained","stage":"all","count":[1-9]`, a.stderr.String())
}

// A node without stages is one that others meet at. It stays until it is stopped.
func TestSeed(t *testing.T) {
	p, gossip := start(t, "seed", "  {}\n")
	require.NotEmpty(t, gossip)
	p.stop(nil)
	require.Equal(t, exitOK, p.wait(t))
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/kept.txt", []byte("kept\n"), 0o600))
	fails := func(want, stages string) {
		t.Helper()
		p, _ := start(t, "a", stages)
		require.Equal(t, exitError, p.wait(t))
		require.Equal(t, []string{want}, p.said(), p.stderr.String())
	}
	fails(`stage "in": stat `+dir+`/no.txt: no such file or directory`, fmt.Sprintf(
		"  out: {sink: file, from: in, with: {path: %s/kept.txt}}\n  in: {source: file, with: {path: %s/no.txt}}\n", dir, dir))
	kept, err := os.ReadFile(dir + "/kept.txt")
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(kept), "nothing is truncated for nothing")

	fails(`stage "out": write /dev/full: no space left on device`,
		"  in: {source: generate}\n  all: {gate: map, from: in, with: {expr: event}}\n  out: {sink: file, from: all, with: {path: /dev/full}}\n")
	fails(`stage "in": `+dir+`/kept.txt:1: the line is longer than 3 bytes`, fmt.Sprintf(
		"  in: {source: file, with: {max_line: 3, path: %s/kept.txt}}\n  out: {sink: stdout, from: in}\n", dir))
}

func TestFailureOfTheOtherNode(t *testing.T) {
	// It fails at an event that it does not ask for before somebody subscribes to it.
	a, seed := start(t, "a", `
  in:  {source: generate, with: {text: "{n}"}}
  bad: {gate: map, from: in, with: {expr: 'event == "2000" ? string(int("x")) : event'}}
`)
	b, _ := start(t, "b", "  out: {sink: stdout, from: bad}\n", seed)
	require.Equal(t, exitError, a.wait(t), a.stderr.String())
	require.Equal(t, exitError, b.wait(t), b.stderr.String())
	require.Len(t, b.said(), 1)
	require.Contains(t, b.said()[0], `stage "out": subscription to "bad" failed: `)
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	path := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil,
		"version: 1\nnode: {name: a}\nlisten: {grpc: {address: %q}}\ncluster: {bind: '127.0.0.1:0'}\n", l.Addr()), 0o600))
	got := call(t.Context(), "run", "-c", path)
	require.Equal(t, exitError, got.code)
	require.Equal(t, fmt.Sprintf(`sluice-node: node "a": listen tcp %s: bind: address already in use
  why: another process listens there
  try: stop it, or choose another address for listen.grpc.address or cluster.bind; port 0 is one that is free
`, l.Addr()), got.stderr)
}

// A sink does not truncate what a source reads, by whatever name it calls it.
func TestNothingIsTruncatedThatIsRead(t *testing.T) {
	for name, link := range map[string]func(old, new string) error{"symbolic": os.Symlink, "hard": os.Link} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in, other := filepath.Join(dir, "in.txt"), filepath.Join(dir, "other.txt")
			require.NoError(t, os.WriteFile(in, []byte("one\ntwo\n"), 0o600))
			require.NoError(t, link(in, other))
			p, _ := start(t, "a", fmt.Sprintf("  lines: {source: file, with: {path: %q}}\n  out: {sink: file, from: lines, with: {path: %q}}\n", in, other))
			require.NotZero(t, <-p.code)
			require.Contains(t, p.stderr.String(), "by another name")
			kept, err := os.ReadFile(in)
			require.NoError(t, err)
			require.Equal(t, "one\ntwo\n", string(kept))
		})
	}
}
