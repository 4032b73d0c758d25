//go:build linux

// Soak lets pipelines of real processes run for a while, breaks what connects them,
// kills them, and proves from what every stage has written down that each promise was
// kept: what may be lost, what may come twice, and that nothing else was or did.
//
//	go run ./test/soak -for 10m -seed 42
//
// A seed repeats the faults, and not when exactly they meet what the processes do. The
// program is its own child.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluicenet/sluice/test/harness"
	"github.com/sluicenet/sluice/test/witness"
)

func main() {
	witness.Child()
	lasts := flag.Duration("for", 2*time.Minute, "how long faults strike")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "of the faults")
	verbose := flag.Bool("v", false, "keep the ledger and what the processes say, and print all offences")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *lasts, *seed, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// The steady pipeline has nodes of its own; the others share theirs, which are killed.
const steady, shaky = "s-", "x-"

// little is what the shaky ones have room for: so a part of a delivery often waits for
// acknowledgements when its session breaks, or ends.
const little = 16 << 10

var pipelines = []witness.Pipeline{
	{Nodes: steady, Name: "steady", Dispatcher: "demand", Sinks: 1, Steady: true, MaxDemand: 1000, Window: 30 * time.Second, PerEvent: 200 * time.Microsecond},
	{Nodes: shaky, Name: "demand", Dispatcher: "demand", Sinks: 2, MaxDemand: 100, Window: 3 * time.Second, PerEvent: time.Millisecond, MaxUnackedBytes: little},
	{Nodes: shaky, Name: "broadcast", Dispatcher: "broadcast", Sinks: 2, MaxDemand: 100, Window: 3 * time.Second, PerEvent: time.Millisecond, MaxUnackedBytes: little},
	{Nodes: shaky, Name: "partition", Dispatcher: "partition", Sinks: 2, MaxDemand: 100, Window: 3 * time.Second, PerEvent: time.Millisecond, MaxUnackedBytes: little},
	{Nodes: shaky, Name: "atmostonce", Dispatcher: "demand", Sinks: 2, AtMostOnce: true, MaxDemand: 100, Window: 3 * time.Second, PerEvent: time.Millisecond, MaxUnackedBytes: little},
}

const (
	progressEvery = 5 * time.Second
	// settle is how long the network is left alone before it is drained.
	settle = 2 * time.Second
)

// soak is one run.
type soak struct {
	net    *witness.Network
	seed   uint64
	out    io.Writer
	before int // events, at the last line of progress

	mu     sync.Mutex
	faults map[string]int
	log    io.Writer // when which fault struck whom
}

// run returns an error when a promise was broken.
func run(ctx context.Context, out io.Writer, lasts time.Duration, seed uint64, verbose bool) error {
	repeat := fmt.Sprintf("seed %d: go run ./test/soak -for %v -seed %d", seed, lasts, seed)
	fmt.Fprintln(out, repeat)
	dir, err := os.MkdirTemp("", "sluice-soak")
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "faults"))
	if err != nil {
		return err
	}
	defer log.Close()
	net, err := witness.Start(dir, seed, pipelines...)
	if err != nil {
		net.Close() // what has started
		return err
	}
	defer net.Close()
	s := &soak{net: net, seed: seed, out: out, faults: map[string]int{}, log: log}
	s.strike(ctx, lasts)
	harness.Sleep(ctx, settle)
	net.Drain()
	tallies, err := net.Check()
	if err != nil {
		return err
	}
	table(out, tallies)
	s.struckTable()
	offences := append(s.leaks(), net.Wrongs()...)
	for _, t := range tallies {
		offences = append(offences, t.Offences...)
	}
	for i, o := range offences {
		if i == 20 && !verbose {
			fmt.Fprintf(out, "... and %d more\n", len(offences)-i)
			break
		}
		fmt.Fprintln(out, "OFFENCE", o)
	}
	if len(offences) > 0 || verbose {
		fmt.Fprintln(out, "ledger:", dir)
	} else {
		_ = os.RemoveAll(dir)
	}
	fmt.Fprintln(out, repeat)
	if len(offences) > 0 {
		return fmt.Errorf("the ledger is not clean, %d offences, the first: %s", len(offences), offences[0])
	}
	return nil
}

// strike lets faults strike for a while, and says how it goes.
func (s *soak) strike(ctx context.Context, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, n := range s.net.Nodes {
		wg.Go(func() { s.suffer(ctx, n, i) })
	}
	begin := time.Now()
	every := time.NewTicker(progressEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			s.progress(time.Since(begin), lasts)
		case <-ctx.Done():
			return
		}
	}
}

func (s *soak) struck(n *witness.Node, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[fault]++
	fmt.Fprintf(s.log, "%s  %v: %s\n", time.Now().UTC().Format("15:04:05.000"), n, fault)
}
