// Bench measures sluice beside what a user would pick instead: the same events,
// batches and credits, in the same run, on the same machine. Producer and consumer
// are processes of their own, on loopback.
//
//	go run .            everything; about half an hour
//	go run . -short     a little of everything; less than two minutes
//	go run . -json      one JSON object a line
//	go run . -case one-hop -size 100
//	go run . -growth    what a unit costs as subscribers, outlets, nodes and buffers grow
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	short := flag.Bool("short", false, "fewer cases, and less time for each: shows that everything works, and no more")
	asJSON := flag.Bool("json", false, "print one JSON object a line")
	reps := flag.Int("reps", 5, "repetitions; rows alternate")
	lasts := flag.Duration("for", 1500*time.Millisecond, "how long one repetition is measured")
	only := flag.String("case", "", "only cases whose name contains this")
	rows := flag.String("row", "", "only rows whose names are in this list: sluice,raw-grpc")
	size := flag.Int("size", 0, "only events of this many bytes")
	profile := flag.String("profile", "", "write a CPU profile and one of allocations of every process into this directory; repetitions overwrite each other's")
	growth := flag.Bool("growth", false, "measure instead how costs grow; a quarter of an hour, in this process alone")
	plot := flag.String("plot", "", "with -growth: draw the curves into this SVG file")
	flag.Parse()
	if *growth {
		return grow(os.Stdout, *reps, *only, *asJSON, *plot)
	}

	all := cases()
	if *short {
		all = shortCases()
		*reps, *lasts = 1, 300*time.Millisecond
	}
	var chosen []Case
	for _, c := range all {
		if strings.Contains(c.Name, *only) && (*size == 0 || c.Size == *size) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no case is chosen")
	}
	r := runner{reps: *reps, lasts: *lasts, rows: split(*rows), profile: *profile}
	print := table(os.Stdout)
	if *asJSON {
		print = lines(os.Stdout)
	}
	for _, c := range chosen {
		results, err := r.measure(ctx, c)
		if err != nil {
			return err
		}
		print(results)
	}
	return nil
}

func split(list string) map[string]bool {
	if list == "" {
		return nil
	}
	set := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		set[name] = true
	}
	return set
}
