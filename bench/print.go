package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// of returns what f says of the samples: the median, the least and the most.
func of[T cmp.Ordered](samples []Sample, f func(Sample) T) (median, least, most T) {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = f(s)
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// table prints the results of one case after the other, for people.
func table(w io.Writer) func([]Result) {
	return func(results []Result) {
		c := results[0].Case
		fmt.Fprintf(w, "\n%s, %d bytes, demand %s, %d subscription(s)\n", c.Name, c.Size, c.demand(), c.Subs)
		fmt.Fprintf(w, "  %-20s %10s %21s %6s %8s %8s %8s %8s %8s %8s %7s\n",
			"", "events/s", "least .. most", "ratio", "MB/s", "CPU s/M", "allocs/e", "p50", "p99", "p99.9", "MiB")
		for _, r := range results {
			rate, least, most := of(r.Samples, func(s Sample) float64 { return s.EventsPerS })
			ratio, _, _ := of(r.Samples, func(s Sample) float64 { return s.RatioToBase })
			mb, _, _ := of(r.Samples, func(s Sample) float64 { return s.MBPerS })
			cpu, _, _ := of(r.Samples, func(s Sample) float64 { return s.CPUPerM })
			allocs, _, _ := of(r.Samples, func(s Sample) float64 { return s.AllocsPerEv })
			p50, _, _ := of(r.Samples, func(s Sample) time.Duration { return s.P50 })
			p99, _, _ := of(r.Samples, func(s Sample) time.Duration { return s.P99 })
			p999, _, _ := of(r.Samples, func(s Sample) time.Duration { return s.P999 })
			peak, _, _ := of(r.Samples, func(s Sample) int64 { return s.PeakKiB })
			fmt.Fprintf(w, "  %-20s %10s %10s %10s %6.2f %8.1f %8.3f %8.3f %8s %8s %8s %7d\n", r.Row, short(rate), short(least), short(most),
				ratio, mb, cpu, allocs, brief(p50), brief(p99), brief(p999), peak>>10)
		}
	}
}

func short(n float64) string {
	switch {
	case n >= 1e7:
		return fmt.Sprintf("%.1f M", n/1e6)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0f k", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

func brief(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	if d > time.Millisecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

// lines prints one JSON object a line, for programs.
func lines(w io.Writer) func([]Result) {
	out := json.NewEncoder(w)
	return func(results []Result) {
		for _, r := range results {
			rate, least, most := of(r.Samples, func(s Sample) float64 { return s.EventsPerS })
			line := map[string]any{
				"row": r.Row, "case": r.Case.Name, "size": r.Case.Size, "demand": r.Case.demand(), "subs": r.Case.Subs,
				"reps": len(r.Samples), "events_per_s": rate, "events_per_s_min": least, "events_per_s_max": most,
			}
			put := func(key string, f func(Sample) float64) { line[key], _, _ = of(r.Samples, f) }
			if base := results[0].Row; base == "raw-grpc" {
				put("ratio_to_raw_grpc", func(s Sample) float64 { return s.RatioToBase })
			}
			put("mb_per_s", func(s Sample) float64 { return s.MBPerS })
			put("cpu_s_per_m", func(s Sample) float64 { return s.CPUPerM })
			put("allocs_per_event", func(s Sample) float64 { return s.AllocsPerEv })
			put("switches_per_k", func(s Sample) float64 { return s.SwitchesPerK })
			put("p50_us", func(s Sample) float64 { return float64(s.P50) / 1e3 })
			put("p99_us", func(s Sample) float64 { return float64(s.P99) / 1e3 })
			put("p999_us", func(s Sample) float64 { return float64(s.P999) / 1e3 })
			put("peak_mib", func(s Sample) float64 { return float64(s.PeakKiB) / 1024 })
			_ = out.Encode(line)
		}
	}
}
