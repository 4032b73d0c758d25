//go:build linux

// Soak lets pipelines of real processes run for a while, breaks what connects them,
// kills them, and proves from what every stage has written down that each promise was
// kept: what may be lost, what may come twice, and that nothing else was or did.
//
//	go run ./test/soak -for 10m -seed 42
//
// A seed repeats the faults and when they strike, and not what the processes make of
// them. The program is its own child.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	if env, ok := os.LookupEnv(childEnv); ok {
		os.Exit(runChild(env))
	}
	lasts := flag.Duration("for", 2*time.Minute, "how long faults strike")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "of the faults")
	verbose := flag.Bool("v", false, "keep the ledger and what the processes say, and print all offences")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, os.Stdout, *lasts, *seed, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// settle is how long the network is left alone before it is drained.
const settle = 2 * time.Second

// soak runs the network, and returns an error when a promise was broken.
func soak(ctx context.Context, w io.Writer, lasts time.Duration, seed uint64, verbose bool) error {
	repeat := fmt.Sprintf("go run ./test/soak -for %v -seed %d", lasts, seed)
	fmt.Fprintf(w, "seed %d: %s\n", seed, repeat)
	dir, err := os.MkdirTemp("", "sluice-soak")
	if err != nil {
		return err
	}
	net, err := newNetwork(dir, seed)
	if net != nil {
		defer net.close()
	}
	if err != nil {
		return err
	}
	net.strike(ctx, w, lasts)
	rest(ctx, settle)
	net.finish()
	tallies, err := net.check()
	if err != nil {
		return err
	}
	table(w, tallies)
	net.printFaults(w)
	offences := append(net.leaks(w), net.broken...)
	for _, t := range tallies {
		offences = append(offences, t.offences...)
	}
	if len(offences) == 0 && !verbose {
		_ = os.RemoveAll(dir)
	} else {
		fmt.Fprintln(w, "ledger:", dir)
	}
	for i, o := range offences {
		if i == 20 && !verbose {
			fmt.Fprintf(w, "... and %d more\n", len(offences)-i)
			break
		}
		fmt.Fprintln(w, "OFFENCE", o)
	}
	fmt.Fprintf(w, "seed %d: %s\n", seed, repeat)
	if len(offences) > 0 {
		return fmt.Errorf("the ledger is not clean, %d offences, the first: %s", len(offences), offences[0])
	}
	return nil
}

// strike lets faults strike for a while, and says how it goes.
func (net *network) strike(ctx context.Context, w io.Writer, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, p := range net.nodes {
		wg.Go(func() { p.suffer(ctx, i) })
	}
	begin, before := time.Now(), 0
	every := time.NewTicker(progressEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		now, struck := 0, 0
		for _, p := range net.nodes {
			now += p.handled()
		}
		net.mu.Lock()
		for _, n := range net.faults {
			struck += n
		}
		kills := len(net.killed)
		net.mu.Unlock()
		fmt.Fprintf(w, "%6v of %v  %5d faults, %3d kills  %9d events, %6.0f/s\n", time.Since(begin).Round(time.Second), lasts,
			struck, kills, now, float64(now-before)/progressEvery.Seconds())
		before = now
	}
}

const progressEvery = 5 * time.Second

// check reads the ledger and holds it to what is promised.
func (net *network) check() ([]*tally, error) {
	var tallies []*tally
	for _, p := range pipelines {
		raw, done, err := readHops(net.dir, p, net.killed)
		if err != nil {
			return nil, err
		}
		tallies = append(tallies, check(raw), check(done))
	}
	return tallies, nil
}
