//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicenet/sluice/test/harness"
)

// flow is numbered lines: a makes them, b copies them, c writes them to a file.
type flow struct {
	count  int
	rate   int // a second; 0 for no limit
	pad    int // bytes of a line beside its number
	window time.Duration
}

// patience is how long what should take seconds may take on a machine that is busy.
const patience = 60 * time.Second

// demand is what a stage asks for.
const demand = 1000

func (l *lab) out() string { return filepath.Join(l.dir, "out") }

// start starts the node of a machine.
func (l *lab) start(machine string) error {
	f := l.flow
	from := func(outlet string) string {
		return fmt.Sprintf("{outlet: %s, max_demand: %d, resume_window: %v}", outlet, demand, cmp.Or(f.window, 30*time.Second))
	}
	stage := map[string]string{
		"a": fmt.Sprintf("lines: {source: generate, with: {count: %d, rate: %d, text: \"{n}%s\"}}", f.count, f.rate, strings.Repeat(" ", f.pad)),
		"b": fmt.Sprintf("copy: {gate: map, from: %s, with: {expr: event}}", from("lines")),
		"c": fmt.Sprintf("out: {sink: file, from: %s, with: {path: %q, append: true}}", from("copy"), l.out()),
	}[machine]
	file := filepath.Join(l.dir, machine+".yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `version: 1
node: {name: %s}
listen: {grpc: {address: "%s:7301"}}
cluster: {name: %s, bind: "%s:7401", join: ["%s:7401"]}
stages:
  %s
`, machine, l.address(machine), l.name, l.address(machine), l.address("a"), stage), 0o600)
	if err != nil {
		return err
	}
	l.running[machine], err = harness.Start(machine, l.on(machine, "sluice-node", "run", "-c", file))
	return err
}

// startAll starts the nodes, and waits until some lines are written.
func (l *lab) startAll(f flow) error {
	l.flow = f
	for _, m := range machines {
		if err := l.start(m); err != nil {
			return err
		}
	}
	return l.awaitWritten(1)
}

// stop tells a node to end, and waits until it has drained.
func (l *lab) stop(machine string) error {
	l.running[machine].Signal(syscall.SIGTERM)
	return l.awaitEnd(machine)
}

func (l *lab) awaitEnd(machine string) error {
	code, err := l.running[machine].Exit(patience)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s has ended with code %d", machine, code)
	}
	return err
}

// await waits until ok.
func (l *lab) await(what string, patience time.Duration, ok func() bool) error {
	for begin := time.Now(); !ok(); {
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
		harness.Sleep(l.ctx, 100*time.Millisecond)
	}
	return nil
}

// awaitWritten waits until there are n lines.
func (l *lab) awaitWritten(n int) error {
	return l.await(fmt.Sprintf("%d lines are written", n), patience, func() bool { return l.written() >= n })
}

// written is how many lines there are.
func (l *lab) written() int {
	text, _ := os.ReadFile(l.out()) // there is none before the sink has opened it
	return bytes.Count(text, []byte("\n"))
}

// awaitAll waits until all nodes have ended by themselves, and judges what is written.
func (l *lab) awaitAll() (account, error) {
	for _, m := range machines {
		if err := l.awaitEnd(m); err != nil {
			return account{}, err
		}
	}
	text, err := os.ReadFile(l.out())
	if err != nil {
		return account{}, err
	}
	return judge(string(text), l.flow.count)
}

// account is how the lines that are written differ from 1, 2, 3 and so on.
type account struct{ lost, twice, late int }

// once returns an error where they differ.
func (a account) once() error {
	if a != (account{}) {
		return fmt.Errorf("of the lines %d are lost, %d came twice, %d out of order", a.lost, a.twice, a.late)
	}
	return nil
}

// judge accounts for lines that should be numbered from 1 to n.
func judge(text string, n int) (a account, err error) {
	seen := make([]bool, n+1)
	last := 0
	for line := range strings.Lines(text) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		switch {
		case err != nil || i < 1 || i > n:
			return a, fmt.Errorf("nobody has made the line %q", line)
		case seen[i]:
			a.twice++
		case i < last:
			a.late++
		}
		seen[i], last = true, max(last, i)
	}
	for _, yes := range seen[1:] {
		if !yes {
			a.lost++
		}
	}
	return a, nil
}

// made is how many lines the source has made.
func (l *lab) made() (int, error) {
	var answer struct {
		Stages []struct {
			Name string
			Out  int `json:"events_out"`
		}
	}
	if err := l.ask("a", "stages", &answer); err != nil {
		return 0, err
	}
	for _, s := range answer.Stages {
		if s.Name == "lines" {
			return s.Out, nil
		}
	}
	return 0, errors.New("the source is not among the stages")
}

// brokenFor is how long ago a machine has found that the stream between b and c is broken.
func (l *lab) brokenFor(machine string) (age time.Duration, yes bool) {
	var answer struct {
		Subscriptions []struct {
			Outlet, State string
			Age           float64 `json:"age_seconds"`
		}
	}
	if l.ask(machine, "subs", &answer) != nil {
		return 0, false
	}
	for _, s := range answer.Subscriptions {
		if s.Outlet == "copy" && s.State == "reconnecting" {
			return time.Duration(s.Age * float64(time.Second)), true
		}
	}
	return 0, false
}

// awaitGossip waits until both neighbours of the gate have heard these of it, gone and
// found, one after the other.
func (l *lab) awaitGossip(heard ...string) error {
	for _, m := range []string{"a", "c"} {
		err := l.await(fmt.Sprintf("%s hears of b: %s", m, heard), patience, func() bool {
			text, found := l.running[m].Said(), true
			for _, h := range heard {
				_, text, found = strings.Cut(text, fmt.Sprintf(`"node %s" node=%s other=b`, h, m))
			}
			return found
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ask asks the node of a machine, which asks the others as well.
func (l *lab) ask(machine, verb string, answer any) error {
	out, err := l.on(machine, "sluicectl", verb, "-o", "json", "-s", l.address(machine)+":7301").Output()
	if json.Unmarshal(out, answer) == nil {
		return nil // also where some did not answer
	}
	return fmt.Errorf("ask %s for its %s: %w", machine, verb, err)
}
