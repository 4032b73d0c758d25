package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 15, 16, 17, 31, 32, 1000, 123_456, time.Second, time.Minute} {
		got := ceiling(slot(uint64(d)))
		require.GreaterOrEqual(t, got, d)
		require.LessOrEqual(t, float64(got), float64(d)*1.07+1, "%v", d)
	}
	var h Histogram
	require.Zero(t, h.quantile(0.5))
	for i := range 1000 {
		h.add(uint64(i+1) * 1000)
	}
	require.InEpsilon(t, 500*time.Microsecond, h.quantile(0.5), 0.07)
	require.InEpsilon(t, 990*time.Microsecond, h.quantile(0.99), 0.07)
}

func TestFrames(t *testing.T) {
	g := newGenerator(Spec{Case: Case{Size: 100}})
	frame := appendBatch(make([]byte, 0, batchSize(3, 100)), 1, 3, g)
	events, err := readBatch(frame, nil)
	require.NoError(t, err)
	require.Len(t, events, 3)
	m := &Meter{}
	check := Checker{m: m}
	check.Batch(events)
	require.Nil(t, m.faults.Load())
	check.Batch(events[:1])
	require.NotNil(t, m.faults.Load(), "an event that comes again is a fault")
	_, err = readBatch(frame[:len(frame)-1], nil)
	require.ErrorIs(t, err, errFrame)
}

func TestAsker(t *testing.T) {
	a := asker{open: 1000, max: 1000, min: 750}
	require.Equal(t, 0, a.took(249))
	require.Equal(t, 250, a.took(1))
	require.Equal(t, 250, a.took(250))
}

func TestCasesAreKnown(t *testing.T) {
	for _, c := range cases() {
		for _, row := range c.Rows {
			require.NotEmpty(t, rows[row].parts, row)
			for _, role := range rows[row].roles(c) {
				require.NotNil(t, rows[row].parts[role], "%s in %s: %s", row, c.Name, role)
			}
		}
	}
}
