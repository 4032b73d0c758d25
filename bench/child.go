package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// childEnv carries the Spec of a process that the bench has started.
const childEnv = "SLUICE_BENCH_CHILD"

// Spec is what one process does.
type Spec struct {
	Case
	Row  string
	Role string // "produce", "gate", "consume", "serve", "local"
	// Rate is how many events are made in a second; 0 for as many as are asked for.
	Rate float64
	// Address is where the process before it is reached, and Server the row's server.
	Address, Server string
	Profile         string
}

// Part is what a process runs. It says its address, if it has one, to ready, and works
// until ctx ends.
type Part func(ctx context.Context, s Spec, m *Meter, ready func(address string)) error

// child runs a part. The parent writes "snap" to get a Snapshot, and closes the input
// to end it.
func child(text string) int {
	var s Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	part := rows[s.Row].parts[s.Role]
	if part == nil {
		fmt.Fprintf(os.Stderr, "%s has no part %q\n", s.Row, s.Role)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slog.SetLogLoggerLevel(slog.LevelError)
	m := &Meter{timed: s.Load != 0}
	if s.Profile != "" {
		name := filepath.Join(s.Profile, fmt.Sprintf("%s-%s-%d-%d-%s", s.Row, s.Name, s.Size, s.Max, s.Role))
		defer allocations(name + "-allocs.pprof")
		f, err := os.Create(name + ".pprof")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer pprof.StopCPUProfile()
	}
	out := json.NewEncoder(os.Stdout)
	done := make(chan error, 1)
	go func() { done <- part(ctx, s, m, func(address string) { _ = out.Encode(address) }) }()
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		_ = out.Encode(m.snapshot())
	}
	cancel()
	if err := <-done; err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, s.Row, s.Role, err)
		return 1
	}
	return 0
}

// allocations writes what was allocated, and where.
func allocations(name string) {
	f, err := os.Create(name)
	if err == nil {
		err = pprof.Lookup("allocs").WriteTo(f, 0)
		_ = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
