package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

// A file takes the demands that a stage takes, and no others: what is wrong is said before
// anything runs.
func TestDemandsOfFilesAreThoseOfStages(t *testing.T) {
	const none = -1000 // the key is not given
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	sink := stage.NewSink(func(context.Context, []int) error { return nil })
	outlet := stage.Outlet[int](stage.NewSource[int](nil))
	taken := 0
	check := func(most, least int, auto *stage.Auto) {
		entry := "outlet: a"
		var opts []stage.Option
		key := func(name string, n int) {
			if n != none {
				entry += fmt.Sprintf(", %s: %d", name, n)
			}
		}
		key("max_demand", most)
		key("min_demand", least)
		if most != none {
			opts = append(opts, stage.MaxDemand(most))
		}
		if least != none {
			opts = append(opts, stage.MinDemand(least))
		}
		if auto != nil {
			opts = append(opts, stage.AutoDemand(*auto))
			entry += ", auto_demand: {"
			for name, n := range map[string]int64{"min": int64(auto.Min), "max": int64(auto.Max), "max_bytes": auto.MaxBytes} {
				if n != 0 { // which is not the default in a file
					entry += fmt.Sprintf("%s: %d, ", name, n)
				}
			}
			entry += "}"
		}
		_, file := config.Parse("f", fmt.Appendf(nil, "version: 1\nnode: {name: n}\nstages: {b: {sink: x, from: {%s}}}\n", entry))
		// The terms are checked first, and then that there is no time left.
		_, err := stage.Subscribe(gone, outlet, sink, opts...)
		require.Error(t, err)
		require.Equal(t, err != context.Canceled, file != nil, "%s: the file: %v; the stage: %v", entry, file, err)
		if file == nil {
			taken++
		}
	}
	for _, most := range []int{none, 0, 1, 200, 1000, 1 << 31} {
		for _, least := range []int{none, -1, 0, 199, 600, 999, 39_999} {
			check(most, least, nil)
			for _, low := range []int{0, -1, 1, 500, 40_000} {
				for _, high := range []int{0, 1, 500, 40_000, 1 << 31} {
					check(most, least, &stage.Auto{Min: low, Max: high})
				}
			}
			check(most, least, &stage.Auto{MaxBytes: -1})
			check(most, least, &stage.Auto{MaxBytes: 1})
		}
	}
	require.Greater(t, taken, 100)
}
