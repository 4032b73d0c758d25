//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// table prints what the ledger adds up to.
func table(w io.Writer, tallies []*tally) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "outlet\tsent\treceived\tlost\theld by killed\tdiscarded\ttwice\tmarked\tsubscriptions\tgone\tkilled P/C\toffences\t")
	for _, x := range tallies {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d/%d\t%d\t\n", x.name, x.sent, x.received,
			x.lost, x.lostKilled, x.discarded, x.twice, x.again, x.sessions, x.lostSessions, x.pKills, x.consumersKilled, len(x.offences))
	}
	_ = t.Flush()
}

func (net *network) printFaults(w io.Writer) {
	net.mu.Lock()
	defer net.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(net.faults)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, net.faults[name]))
	}
	fmt.Fprintf(w, "faults: %s\n", strings.Join(parts, ", "))
}

// leaks compares processes when they were warm with how they were last, and returns
// what has grown.
func (net *network) leaks(w io.Writer) (offences []string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "process\theap warm\tlast\tgoroutines warm\tlast\t")
	for _, p := range net.nodes {
		p.mu.Lock()
		for run, h := range p.healths {
			warm := p.warm[run]
			if warm.Heap == 0 {
				continue
			}
			name := incarnation{p.spec.Name, run + 1}
			fmt.Fprintf(t, "%v\t%.1f MiB\t%.1f MiB\t%d\t%d\t\n", name, mib(warm.Heap), mib(h.Heap), warm.Goroutines, h.Goroutines)
			if h.Goroutines > 2*warm.Goroutines+50 {
				offences = append(offences, fmt.Sprintf("%v: goroutines have grown from %d to %d", name, warm.Goroutines, h.Goroutines))
			}
			if h.Heap > 2*warm.Heap+16<<20 {
				offences = append(offences, fmt.Sprintf("%v: the heap has grown from %.1f to %.1f MiB", name, mib(warm.Heap), mib(h.Heap)))
			}
		}
		p.mu.Unlock()
	}
	_ = t.Flush()
	return offences
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }
