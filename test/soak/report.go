//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluicenet/sluice/test/witness"
)

// progress prints how it goes, since the last time that it did.
func (s *soak) progress(passed, lasts time.Duration) {
	now, struck := 0, 0
	for _, n := range s.net.Nodes {
		now += n.Handled()
	}
	s.mu.Lock()
	for _, n := range s.faults {
		struck += n
	}
	s.mu.Unlock()
	fmt.Fprintf(s.out, "%6v of %v  %5d faults, %3d kills  %9d events, %6.0f/s\n", passed.Round(time.Second), lasts,
		struck, s.net.Kills(), now, float64(now-s.before)/progressEvery.Seconds())
	s.before = now
}

// table prints what the ledger adds up to.
func table(w io.Writer, tallies []*witness.Tally) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "outlet\tsent\treceived\tlost\theld by killed\tdiscarded\ttwice\tmarked\tsubscriptions\tgone\tkilled P/C\toffences\t")
	for _, x := range tallies {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d/%d\t%d\t\n", x.Name, x.Sent, x.Received,
			x.Lost, x.LostKilled, x.Discarded, x.Twice, x.Again, x.Sessions, x.Gone, x.ProducersKilled, x.ConsumersKilled, len(x.Offences))
	}
	_ = t.Flush()
}

// struckTable prints how often which fault has struck.
func (s *soak) struckTable() {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, s.faults[name]))
	}
	fmt.Fprintf(s.out, "faults: %s\n", strings.Join(parts, ", "))
}

// leaks compares processes when they were warm with how they were last, and returns
// what has grown.
func (s *soak) leaks() (offences []string) {
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "process\theap warm\tlast\tgoroutines warm\tlast\t")
	for _, n := range s.net.Nodes {
		for _, h := range n.Health() {
			if h.Warm.Heap == 0 {
				continue // it did not live long enough
			}
			fmt.Fprintf(t, "%s\t%.1f MiB\t%.1f MiB\t%d\t%d\t\n", h.Process, mib(h.Warm.Heap), mib(h.Last.Heap), h.Warm.Goroutines, h.Last.Goroutines)
			if h.Last.Goroutines > 2*h.Warm.Goroutines+50 {
				offences = append(offences, fmt.Sprintf("%s: goroutines have grown from %d to %d", h.Process, h.Warm.Goroutines, h.Last.Goroutines))
			}
			if h.Last.Heap > 2*h.Warm.Heap+16<<20 {
				offences = append(offences, fmt.Sprintf("%s: the heap has grown from %.1f to %.1f MiB", h.Process, mib(h.Warm.Heap), mib(h.Last.Heap)))
			}
		}
	}
	_ = t.Flush()
	return offences
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }
