package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// child is a node that runs in a process of its own. What the demo knows of it, it
// knows from its log, like anybody could.
type child struct {
	name    string
	started chan struct{} // closed when the node is up
	ended   chan struct{} // closed when the process has ended
	err     error         // how it ended

	grpc, gossip string

	mu      sync.Mutex
	log     []record // the last ones
	stages  map[string]record
	inflows map[string]record // subscriptions, by the stage that reads
}

// record is a line of a log, as far as the demo is interested. One that is no JSON
// has a text only.
type record struct {
	text string

	Time   time.Time `json:"time"`
	Level  string    `json:"level"`
	Msg    string    `json:"msg"`
	GRPC   string    `json:"grpc"`
	Gossip string    `json:"gossip"`
	Stage  string    `json:"stage"`
	In     int64     `json:"in"`
	Out    int64     `json:"out"`
	Asked  int64     `json:"asked"`
	Acked  int64     `json:"acked"`
	Why    string    `json:"why"`
	Try    string    `json:"try"`
}

// logKept is how many lines of a child's log are kept.
const logKept = 100

// upWithin is how long a node may take to come up.
const upWithin = 15 * time.Second

// startChild starts this program anew, with a file. It is killed when ctx ends.
func startChild(ctx context.Context, name, path string, stdout io.Writer) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{
		name: name, started: make(chan struct{}), ended: make(chan struct{}),
		stages: map[string]record{}, inflows: map[string]record{},
	}
	cmd := exec.CommandContext(ctx, self, "run", "-c", path, "--log-format", "json")
	cmd.Stdout = stdout
	cmd.WaitDelay = time.Second
	dieTogether(cmd)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		c.read(stderr)
		c.err = cmd.Wait()
	}()
	return c, nil
}

// read follows the log to its end.
func (c *child) read(log io.Reader) {
	lines := bufio.NewReaderSize(log, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			c.note(line)
		}
		if err != nil {
			return
		}
	}
}

func (c *child) note(line []byte) {
	var r record
	if json.Unmarshal(line, &r) != nil {
		r = record{}
	}
	r.text = string(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log = append(c.log, r); len(c.log) > logKept {
		c.log = c.log[1:]
	}
	switch r.Msg {
	case "node started":
		if c.gossip == "" {
			c.grpc, c.gossip = r.GRPC, r.Gossip
			close(c.started)
		}
	case msgStageEnded:
		c.stages[r.Stage] = r
	case msgSubscriptionEnded:
		c.inflows[r.Stage] = r
	}
}

// up waits until the node is up, and returns where its gossip is reached.
func (c *child) up(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, upWithin, fmt.Errorf("node %q did not come up within %v", c.name, upWithin))
	defer cancel()
	select {
	case <-c.started:
		return c.gossip, nil
	case <-c.ended:
		// A child that was quick has started too.
		select {
		case <-c.started:
			return c.gossip, nil
		default:
		}
		if c.err == nil {
			c.err = errors.New("it ended at once")
		}
		return "", &childError{c}
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// childError is a child that failed.
type childError struct{ c *child }

func (e *childError) Error() string { return fmt.Sprintf("node %q failed: %v", e.c.name, e.c.err) }

// writeLog writes the log for people.
func (c *child) writeLog(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.log {
		if r.Level != "ERROR" {
			fmt.Fprintf(w, "  %s\n", plain(r))
			continue
		}
		fmt.Fprintf(w, "  %s\n", r.Msg)
		if r.Why != "" {
			fmt.Fprintf(w, "    why: %s\n", r.Why)
		}
		if r.Try != "" {
			fmt.Fprintf(w, "    try: %s\n", r.Try)
		}
	}
}

// plain is a record on one line, without what its reader knows.
func plain(r record) string {
	var fields map[string]any
	if json.Unmarshal([]byte(r.text), &fields) != nil {
		return strings.TrimRight(r.text, "\n")
	}
	line := r.Time.Local().Format(time.TimeOnly) + " " + r.Msg
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "time", "level", "msg", "node":
		default:
			line += fmt.Sprintf(" %s=%v", key, fields[key])
		}
	}
	return line
}
