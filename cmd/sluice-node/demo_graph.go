package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// edge is one subscription of the demo, with its counts.
type edge struct {
	outlet, from, stage, to string
	asked, sent, acked      int64
}

// edges are the subscriptions, in the order of the flow.
func (d *demo) edges() []edge {
	a, b, c := d.nodes[nodeA], d.nodes[nodeB], d.nodes[nodeC]
	return []edge{
		{outlet: "lines", from: nodeA, stage: "kept", to: nodeB, asked: b.inflows["kept"].Asked, sent: a.stages["lines"].Out, acked: b.inflows["kept"].Acked},
		{outlet: "kept", from: nodeB, stage: "loud", to: nodeB, asked: b.inflows["loud"].Asked, sent: b.stages["kept"].Out, acked: b.inflows["loud"].Acked},
		{outlet: "loud", from: nodeB, stage: "out", to: nodeC, asked: c.inflows["out"].Asked, sent: b.stages["loud"].Out, acked: c.inflows["out"].Acked},
	}
}

// show prints the graph, and what passed over it.
func (d *demo) show() error {
	edges := d.edges()
	p := newPaint(d.stdout, d.env)
	var b strings.Builder
	b.WriteByte('\n')
	graph(&b, p, edges)
	b.WriteByte('\n')
	counted := table(&b, p, edges)
	if !counted {
		_, _ = io.WriteString(d.stdout, b.String())
		return fmt.Errorf("the counts of both ends do not agree, which is a bug: report it, with the output above")
	}
	b.WriteString("\n  Nothing was sent that was not asked for, and all of it was acknowledged.\n")
	_, err := io.WriteString(d.stdout, b.String())
	return err
}

// graph draws the nodes as boxes.
func graph(b *strings.Builder, p paint, edges []edge) {
	in, inside, out := number(edges[0].acked), number(edges[1].acked), number(edges[2].acked)
	middle := "kept ── " + inside + " ──▶ loud"
	kinds := "filter" + strings.Repeat(" ", width(middle)-len("filter")-len("loud")) + "map "
	boxes := []struct{ node, names, kinds string }{
		{nodeA, "lines", "file"},
		{nodeB, middle, kinds},
		{nodeC, "out", "stdout"},
	}
	arrows := []string{in, out}
	rows := make([]string, 5)
	for i, box := range boxes {
		w := max(width(box.names), width(box.kinds), len("node x"))
		rows[0] += "  " + p.dim(pad("node "+box.node, w+2))
		rows[1] += "┌─" + strings.Repeat("─", w) + "─┐"
		rows[2] += "│ " + p.bold(pad(box.names, w)) + " │"
		rows[3] += "│ " + p.dim(pad(box.kinds, w)) + " │"
		rows[4] += "└─" + strings.Repeat("─", w) + "─┘"
		if i == len(boxes)-1 {
			break
		}
		a := max(width(arrows[i])+4, 7)
		rows[0] += strings.Repeat(" ", a)
		rows[1] += strings.Repeat(" ", a)
		rows[2] += p.bold(center(arrows[i], a))
		rows[3] += " " + strings.Repeat("─", a-3) + "▶ "
		rows[4] += strings.Repeat(" ", a)
	}
	for _, row := range rows {
		b.WriteString(strings.TrimRight("  "+row, " ") + "\n")
	}
}

// table lists the subscriptions. It reports whether their counts are in order.
func table(b *strings.Builder, p paint, edges []edge) bool {
	ok := true
	w := len("ACKED")
	for _, e := range edges {
		w = max(w, len(number(e.asked)), len(number(e.sent)))
	}
	b.WriteString(p.dim(fmt.Sprintf("  %-23s  %*s  %*s  %*s", "SUBSCRIPTION", w, "ASKED", w, "SENT", w, "ACKED")) + "\n")
	for _, e := range edges {
		fmt.Fprintf(b, "  %-8s ──▶ %-8s    %*s  %*s  %*s\n", pad(e.outlet, 5)+" @"+e.from, pad(e.stage, 5)+" @"+e.to,
			w, number(e.asked), w, number(e.sent), w, number(e.acked))
		ok = ok && e.sent == e.acked && e.sent <= e.asked
	}
	return ok
}

// number writes a number with a comma at every thousand.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func width(text string) int { return utf8.RuneCountInString(text) }

func pad(text string, w int) string { return text + strings.Repeat(" ", max(w-width(text), 0)) }

func center(text string, w int) string {
	left := (w - width(text)) / 2
	return pad(strings.Repeat(" ", left)+text, w)
}

// paint sets text off where there is a terminal that can, and its user wants it.
type paint bool

func newPaint(w io.Writer, env func(string) string) paint {
	f, ok := w.(*os.File)
	return paint(ok && env("NO_COLOR") == "" && env("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

func (p paint) dim(text string) string  { return p.with("2", text) }
func (p paint) bold(text string) string { return p.with("1", text) }

func (p paint) with(code, text string) string {
	if !p || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
