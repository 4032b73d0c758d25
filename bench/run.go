package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// runner measures cases.
type runner struct {
	reps    int
	lasts   time.Duration
	rows    map[string]bool // nil for all
	profile string
}

// warmUp is how long a row runs before it is measured.
const warmUp = 300 * time.Millisecond

// Sample is one repetition of one row.
type Sample struct {
	EventsPerS, MBPerS   float64
	CPUPerM, AllocsPerEv float64
	SwitchesPerK         float64
	P50, P99, P999       time.Duration
	PeakKiB              int64
	RatioToBase          float64 // to the first row of the case, in this repetition
	events               int64
}

// Result is what a row has shown in a case.
type Result struct {
	Case    Case
	Row     string
	Samples []Sample
}

// measure runs the rows of a case in turn, again and again, so that what the machine
// does meanwhile hits all of them alike.
func (r runner) measure(ctx context.Context, c Case) ([]Result, error) {
	var results []Result
	for _, name := range c.Rows {
		if r.rows == nil || r.rows[name] {
			results = append(results, Result{Case: c, Row: name})
		}
	}
	capacity := map[string]float64{}
	for rep := range r.reps {
		for i := range results {
			res := &results[i]
			s := Spec{Case: c, Row: res.Row, Profile: r.profile}
			switch {
			case c.Load == Idle:
				s.Rate = 1000
			case c.Load > 0:
				if capacity[res.Row] == 0 {
					full := s
					full.Load = 0
					sample, err := r.once(ctx, full)
					if err != nil {
						return nil, err
					}
					capacity[res.Row] = sample.EventsPerS
				}
				s.Rate = capacity[res.Row] * c.Load
			}
			progress("%s, %d bytes, %s: %s, %d of %d", c.Name, c.Size, c.demand(), res.Row, rep+1, r.reps)
			sample, err := r.once(ctx, s)
			if err != nil {
				return nil, err
			}
			res.Samples = append(res.Samples, sample)
		}
		for i := range results {
			last := &results[i].Samples[rep]
			last.RatioToBase = last.EventsPerS / results[0].Samples[rep].EventsPerS
		}
	}
	progress("")
	return results, nil
}

// progress says on a terminal what is going on.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	}
}

// once runs a row once.
func (r runner) once(ctx context.Context, s Spec) (Sample, error) {
	if err := ctx.Err(); err != nil {
		return Sample{}, err
	}
	var all []*process
	defer func() {
		for _, p := range slices.Backward(all) {
			p.stop()
		}
	}()
	for _, role := range rows[s.Row].roles(s.Case) {
		s.Role = role
		p, err := start(s)
		if err != nil {
			return Sample{}, err
		}
		all = append(all, p)
		if role == "serve" {
			s.Server = p.address
		} else {
			s.Address = p.address
		}
	}
	if err := flows(ctx, all[len(all)-1]); err != nil {
		return Sample{}, err
	}
	time.Sleep(warmUp)
	before, err := snapshots(all)
	if err != nil {
		return Sample{}, err
	}
	time.Sleep(r.lasts)
	after, err := snapshots(all)
	if err != nil {
		return Sample{}, err
	}
	sample := compare(before, after)
	if sample.events == 0 {
		return sample, fmt.Errorf("%s carries nothing in %s, %d bytes", s.Row, s.Name, s.Size)
	}
	return sample, nil
}

// flows waits until the first events have come: nodes may take a second to find each other.
func flows(ctx context.Context, consumer *process) error {
	for begin := time.Now(); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		s, err := consumer.snapshot()
		switch {
		case err != nil:
			return err
		case s.Events > 0:
			return nil
		case time.Since(begin) > 10*time.Second:
			return fmt.Errorf("%s: nothing has come after %v", consumer.spec.Row, time.Since(begin).Round(time.Second))
		}
	}
	return ctx.Err()
}

func snapshots(all []*process) ([]Snapshot, error) {
	out := make([]Snapshot, len(all))
	for i, p := range all {
		var err error
		if out[i], err = p.snapshot(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compare says what happened between two rounds of snapshots. The last process is the
// consumer.
func compare(before, after []Snapshot) Sample {
	last := len(after) - 1
	a, b := before[last], after[last]
	took := b.At.Sub(a.At).Seconds()
	events := float64(b.Events - a.Events)
	s := Sample{
		events:     b.Events - a.Events,
		EventsPerS: events / took,
		MBPerS:     float64(b.Bytes-a.Bytes) / took / 1e6,
	}
	delays := b.Delays.minus(a.Delays)
	s.P50, s.P99, s.P999 = delays.quantile(0.5), delays.quantile(0.99), delays.quantile(0.999)
	for i := range after {
		s.CPUPerM += (after[i].CPU - before[i].CPU).Seconds() / events * 1e6
		s.AllocsPerEv += float64(after[i].Mallocs-before[i].Mallocs) / events
		s.SwitchesPerK += float64(after[i].Switches-before[i].Switches) / events * 1e3
		s.PeakKiB += after[i].PeakKiB
	}
	return s
}
