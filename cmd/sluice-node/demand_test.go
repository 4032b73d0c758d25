package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

// A file takes the demands that a stage takes, and no others: what is wrong is said before
// anything runs.
func TestDemandsOfFilesAreThoseOfStages(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]int{-1, 0, 1, 2, 99, 100, 101, 500, 750, 999, 1000, 1001, 31_999, 32_000, 32_001, 40_000, 1<<31 - 1, 1 << 31})
		entry := "outlet: a"
		var opts []stage.Option
		draw := func(key string, option func(int)) {
			if rapid.Bool().Draw(t, key+" is given") {
				n := number.Draw(t, key)
				entry += fmt.Sprintf(", %s: %d", key, n)
				option(n)
			}
		}
		draw("max_demand", func(n int) { opts = append(opts, stage.MaxDemand(n)) })
		draw("min_demand", func(n int) { opts = append(opts, stage.MinDemand(n)) })
		if rapid.Bool().Draw(t, "auto") {
			var auto stage.Auto
			entry += ", auto_demand: {"
			bound := func(key string) int {
				n := number.Draw(t, key)
				if n != 0 { // in a file, 0 is not what is there by default
					entry += fmt.Sprintf("%s: %d, ", key, n)
				}
				return n
			}
			auto.Min, auto.Max, auto.MaxBytes = bound("min"), bound("max"), int64(bound("max_bytes"))
			entry += "}"
			opts = append(opts, stage.AutoDemand(auto))
		}
		_, file := config.Parse("f", fmt.Appendf(nil, "version: 1\nnode: {name: n}\nstages: {b: {sink: x, from: {%s}}}\n", entry))
		// The terms are checked first, and then that there is no time left.
		sink := stage.NewSink(func(context.Context, []int) error { return nil })
		_, err := stage.Subscribe(gone, stage.Outlet[int](stage.NewSource[int](nil)), sink, opts...)
		require.Error(t, err)
		require.Equal(t, err != context.Canceled, file != nil, "%s: the file: %v; the stage: %v", entry, file, err)
	})
}
