package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSteepest(t *testing.T) {
	c := curve{Steps: []int{1, 10, 1000}, Cost: []float64{5, 5, 5}}
	require.InDelta(t, 0, c.steepest(), 1e-9, "each costs the same")
	c.Cost = []float64{5, 50, 50}
	require.InDelta(t, 1, c.steepest(), 1e-9, "the first step is as steep as the size")
	c.Cost = []float64{5, 5, 5e4}
	require.InDelta(t, 2, c.steepest(), 1e-9)
}

func TestMedians(t *testing.T) {
	costs := []float64{9, 1, 2, 5, 3, 30}
	c := curve{Steps: []int{1, 2}, measure: func(int) (float64, error) {
		next := costs[0]
		costs = costs[1:]
		return next, nil
	}}
	require.NoError(t, c.draw(3))
	require.Equal(t, []float64{3, 5}, c.Cost)
}

// Every curve but those that take seconds is measured at its smallest,
// printed and drawn.
func TestGrowthSmoke(t *testing.T) {
	var drawn []*curve
	for _, c := range curves() {
		if c.Name == "cluster" || c.Steps[0] > 10 {
			continue
		}
		c.cut(10)
		if c.Steps[0] == 1 {
			c.cut(1)
		}
		require.NoError(t, c.draw(1), c.Name)
		for _, cost := range c.Cost {
			require.False(t, math.IsNaN(cost) || cost <= 0, "%s: %v", c.Name, c.Cost)
		}
		drawn = append(drawn, c)
	}
	require.NotEmpty(t, drawn)
	svg := xml.NewDecoder(strings.NewReader(figure(drawn)))
	for {
		_, err := svg.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	var out bytes.Buffer
	plot := filepath.Join(t.TempDir(), "growth.svg")
	require.NoError(t, grow(&out, 1, "catalogs", false, plot))
	require.Contains(t, out.String(), "| catalogs |")
	require.FileExists(t, plot)
	require.NoError(t, grow(&out, 1, "catalogs", true, ""))
	require.Error(t, grow(&out, 1, "no such curve", false, ""))
	_, err := os.Stat(plot)
	require.NoError(t, err)
}
