package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
)

// format is the value of --output.
type format string

const (
	formatTable = "table"
	formatJSON  = "json"
)

// String returns the format; a table is the default.
func (f *format) String() string {
	if *f == "" {
		return formatTable
	}
	return string(*f)
}

// Set takes what stands behind --output.
func (f *format) Set(s string) error {
	if s != formatTable && s != formatJSON {
		return fmt.Errorf("want %s or %s", formatTable, formatJSON)
	}
	*f = format(s)
	return nil
}

// Type names the value in the help.
func (f *format) Type() string { return "FORMAT" }

// document is a value as one JSON text, for people and programs.
type document struct{ value any }

func (d document) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d.value)
}

// column is the head of a table's column. Numbers stand at its right.
type column struct {
	name  string
	right bool
}

func text(name string) column   { return column{name: name} }
func number(name string) column { return column{name: name, right: true} }

// table is rows for people.
type table struct {
	columns []column
	rows    [][]string
}

func newTable(columns ...column) *table { return &table{columns: columns} }

// add appends a row. What is empty is unknown.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = known(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.columns))
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = c.name
	}
	lines := append([][]string{head}, t.rows...)
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		for i, cell := range line {
			if t.columns[i].right {
				line[i] = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + cell
			}
		}
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	return tw.Flush()
}

// known is a text on one line, or a dash for none.
func known(s string) string {
	if s = oneLine(s); s == "" {
		return "-"
	}
	return s
}

// oneLine keeps what others wrote from breaking lines, and from steering the
// terminal.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// count writes a number of events, and says so when there is no limit.
func count[N int32 | int64](n N) string {
	if int64(n) == math.MaxInt64 {
		return "unbounded"
	}
	return strconv.FormatInt(int64(n), 10)
}

// maybe writes a number that may be unknown.
func maybe[N int32 | int64](n *N) string {
	if n == nil {
		return ""
	}
	return count(*n)
}

// word is a protobuf enum in lower case without its prefix.
func word(enum fmt.Stringer, prefix string) string {
	name, ok := strings.CutPrefix(enum.String(), prefix)
	if !ok || name == "UNSPECIFIED" {
		return "unknown"
	}
	return strings.ToLower(name)
}

// seconds is a duration for JSON, nil where it is unknown.
func seconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.AsDuration().Seconds()
	return &s
}

// age writes seconds for people: the two units that matter.
func age(s *float64) string {
	if s == nil {
		return ""
	}
	const day = 24 * time.Hour
	d := time.Duration(max(*s, 0) * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d/time.Millisecond)
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}
