package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The plot has both axes logarithmic, so that a level line is what costs the same however
// large, and a line along the dashed one is what grows as the size does. Costs are
// relative to the first of each curve, since their units differ.
const (
	plotWidth, plotHeight = 860, 480
	plotLeft, plotRight   = 60, 250 // margins; names stand on the right
	plotTop, plotBottom   = 46, 50
	decadesAcross         = 7 // from 1 to 10 million
)

var plotColors = []string{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#000000", "#ee7733", "#0077bb", "#009988", "#cc3311", "#997700", "#882255", "#888888"}

// figure draws curves as SVG.
func figure(all []*curve) string {
	low, high := -0.5, 1.0
	for _, c := range all {
		for _, cost := range c.Cost {
			y := math.Log10(cost / c.Cost[0])
			low, high = min(low, y), max(high, y)
		}
	}
	low, high = math.Floor(low*2)/2, math.Ceil(high*2)/2
	x := func(decade float64) float64 {
		return plotLeft + decade/decadesAcross*(plotWidth-plotLeft-plotRight)
	}
	y := func(decade float64) float64 {
		return plotTop + (high-decade)/(high-low)*(plotHeight-plotTop-plotBottom)
	}
	var b strings.Builder
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#222">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	text(plotLeft, 24, "start", "What a unit costs as its number grows, relative to the smallest")
	for d := 0; d <= decadesAcross; d++ {
		line(x(float64(d)), y(low), x(float64(d)), y(high), `stroke="#ddd"`)
		text(x(float64(d)), y(low)+18, "middle", thousands(int(math.Pow10(d))))
	}
	for d := math.Ceil(low); d <= high; d++ {
		line(x(0), y(d), x(decadesAcross), y(d), `stroke="#ddd"`)
		text(x(0)-8, y(d)+4, "end", fmt.Sprintf("%g", math.Pow10(int(d))))
	}
	text(x(decadesAcross/2.0), plotHeight-10, "middle", "subscribers, outlets, nodes or events")
	// As the size grows: the steepest that is allowed.
	line(x(0), y(0), x(high), y(high), `stroke="#888" stroke-dasharray="5 4"`)
	text(x(high)+6, y(high)+12, "start", "as the size does")
	for i, c := range all {
		color := plotColors[i%len(plotColors)]
		var points []string
		for j, n := range c.Steps {
			px, py := x(math.Log10(float64(n))), y(math.Log10(c.Cost[j]/c.Cost[0]))
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", px, py, color)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), color)
		at := float64(plotTop + 10 + 22*i)
		line(plotWidth-plotRight+16, at-4, plotWidth-plotRight+36, at-4, fmt.Sprintf(`stroke="%s" stroke-width="3"`, color))
		text(plotWidth-plotRight+42, at, "start", c.Name+" ("+c.Of+")")
	}
	b.WriteString("</svg>\n")
	return b.String()
}
