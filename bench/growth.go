package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// curve is what one unit of work costs as something grows. Where the work itself grows
// with it, a unit is a part of the work: so a level curve is one that grows as the work
// does, and the steepest that is allowed is one that grows as what is counted.
type curve struct {
	Name string // "broadcast"
	Of   string // what grows: "subscribers"
	Unit string // "CPU ns a copy"
	// Steps are the sizes; the steps from one to the next need not be alike.
	Steps []int
	// measure returns the cost of a unit at a size.
	measure func(n int) (float64, error)
	// Cost is the median for each of Steps.
	Cost []float64
}

// steepest is the exponent of the steepest step: 0 is level, 1 grows as the size does.
func (c *curve) steepest() float64 {
	most := math.Inf(-1)
	for i := 1; i < len(c.Cost); i++ {
		most = max(most, math.Log(c.Cost[i]/c.Cost[i-1])/math.Log(float64(c.Steps[i])/float64(c.Steps[i-1])))
	}
	return most
}

// cut leaves out sizes above most.
func (c *curve) cut(most int) {
	c.Steps = slices.DeleteFunc(c.Steps, func(n int) bool { return n > most })
}

// draw measures a curve: sizes alternate, and the median of each counts.
func (c *curve) draw(reps int) error {
	all := make([][]float64, len(c.Steps))
	for range reps {
		for i, n := range c.Steps {
			runtime.GC()
			cost, err := c.measure(n)
			if err != nil {
				return fmt.Errorf("%s, %d %s: %w", c.Name, n, c.Of, err)
			}
			all[i] = append(all[i], cost)
		}
	}
	c.Cost = nil
	for _, costs := range all {
		slices.Sort(costs)
		c.Cost = append(c.Cost, costs[len(costs)/2])
	}
	return nil
}

func curves() []*curve {
	return append(stageCurves(), networkCurves()...)
}

// grow measures all curves whose names contain only, and prints them.
func grow(w io.Writer, reps int, only string, asJSON bool, plot string) error {
	var drawn []*curve
	for _, c := range curves() {
		if !strings.Contains(c.Name, only) {
			continue
		}
		if err := c.draw(reps); err != nil {
			return err
		}
		drawn = append(drawn, c)
		if asJSON {
			_ = json.NewEncoder(w).Encode(map[string]any{"curve": c.Name, "of": c.Of, "unit": c.Unit, "steps": c.Steps, "cost": c.Cost, "steepest": c.steepest(), "reps": reps})
		} else {
			c.row(w, len(drawn) == 1)
		}
	}
	if len(drawn) == 0 {
		return fmt.Errorf("no curve is chosen")
	}
	if plot == "" {
		return nil
	}
	return os.WriteFile(plot, []byte(figure(drawn)), 0o644)
}

// row prints a curve as a row of a table in Markdown.
func (c *curve) row(w io.Writer, first bool) {
	if first {
		fmt.Fprintln(w, "| what | a unit | as this grows | costs | steepest step |")
		fmt.Fprintln(w, "|---|---|---|---|---|")
	}
	sizes, costs := make([]string, len(c.Steps)), make([]string, len(c.Steps))
	for i, n := range c.Steps {
		sizes[i], costs[i] = thousands(n), figures(c.Cost[i])
	}
	fmt.Fprintf(w, "| %s | %s | %s %s | %s | %+.2f |\n", c.Name, c.Unit, c.Of, strings.Join(sizes, ", "), strings.Join(costs, ", "), c.steepest())
}

// thousands prints 1000000 as 1,000,000.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// figures prints three of them.
func figures(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// cpu is what this process has used of processors.
func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
