package config

import (
	"encoding"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// size is a type that reads itself.
type size int

var _ encoding.TextUnmarshaler = new(size)

func (s *size) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%dKiB", s); err != nil {
		return errors.New("want a size such as 4KiB")
	}
	*s *= 1024
	return nil
}

type batch struct {
	MaxEvents int           `yaml:"max_events"`
	MaxWait   time.Duration `yaml:"max_wait"`
}

type settings struct {
	Path    string            `yaml:"path"`
	Follow  bool              `yaml:"follow,omitempty"`
	Ratio   float64           `yaml:"ratio"`
	Small   int8              `yaml:"small"`
	Count   uint              `yaml:"count"`
	Limit   *int              `yaml:"limit"`
	Every   time.Duration     `yaml:"every"`
	Size    size              `yaml:"size"`
	Columns []string          `yaml:"columns"`
	Batch   batch             `yaml:"batch"`
	Batches []batch           `yaml:"batches"`
	Labels  map[string]string `yaml:"labels"`
	Event   any               `yaml:"event"`
	Plain   string
	Secret  string `yaml:"-"`
	Retry   retry  `yaml:",inline"`
	hidden  string
}

type retry struct {
	Attempts int `yaml:"attempts"`
}

func section(t *testing.T, with string) *Section {
	t.Helper()
	return parse(t, "stages:\n  s:\n    source: x\n    with:\n"+with).Stages[0].With
}

func TestDecode(t *testing.T) {
	got := settings{Path: "default", Plain: "default", Limit: new(3), Secret: "kept", hidden: "kept"}
	require.NoError(t, section(t, `
      path: 2026-01-02
      follow: true
      ratio: 3
      small: -0x10
      count: 1_000
      limit: 0
      every: 1m30s
      size: 4KiB
      columns: [a, 7, "c"]
      batch: {max_events: 5, max_wait: 0}
      batches: [{max_events: 1}, {max_wait: 2s}]
      labels: {zone: eu, 7: x}
      event: {a: [1, 2.5, true, ~, "3", text], b: {}}
      plain:
      attempts: 9
`).Decode(&got))
	require.Equal(t, settings{
		Path: "2026-01-02", Follow: true, Ratio: 3, Small: -16, Count: 1000, Limit: new(0),
		Every: 90 * time.Second, Size: 4096, Columns: []string{"a", "7", "c"},
		Batch:   batch{MaxEvents: 5},
		Batches: []batch{{MaxEvents: 1}, {MaxWait: 2 * time.Second}},
		Labels:  map[string]string{"zone": "eu", "7": "x"},
		Event:   map[string]any{"a": []any{1, 2.5, true, nil, "3", "text"}, "b": map[string]any{}},
		Plain:   "default", Secret: "kept", hidden: "kept", Retry: retry{9},
	}, got)
}

func TestDecodeOfNothing(t *testing.T) {
	for _, s := range []*Section{
		new(Section),
		section(t, "\n"),
		section(t, "      {}\n"),
		parse(t, "stages: {s: {source: x}}").Stages[0].With,
	} {
		got := settings{Path: "default"}
		require.NoError(t, s.Decode(&got))
		require.Equal(t, settings{Path: "default"}, got)
	}
}

func TestDecodeProblems(t *testing.T) {
	wrong := func(with string, lines ...string) {
		t.Helper()
		err := section(t, "      "+with+"\n").Decode(new(settings))
		var want string
		for i, line := range lines {
			if i > 0 {
				want += "\n"
			}
			want += "f:7:" + line
		}
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(Errors))
	}
	wrong(`pth: x`, `7: unknown key "pth" in stages.s.with, did you mean "path"? [SL0103]`)
	wrong(`secret: x`, `7: unknown key "secret" in stages.s.with: it takes path, follow, ratio, small, count, limit, every, size, columns, batch, batches, labels, event, plain, attempts [SL0103]`)
	wrong(`batch: {max_event: 1}`, `15: unknown key "max_event" in stages.s.with.batch, did you mean "max_events"? [SL0103]`)
	wrong(`path: [x]`, `13: stages.s.with.path: want text, have a list [SL0105]`)
	wrong(`follow: yes`, `15: stages.s.with.follow: want true or false, have the text "yes" [SL0105]`)
	wrong(`ratio: a lot`, `14: stages.s.with.ratio: want a number, have the text "a lot" [SL0105]`)
	wrong(`ratio: .inf`, `14: stages.s.with.ratio: want a number, have the number .inf [SL0105]`)
	wrong(`small: 128`, `14: stages.s.with.small: the number 128 does not fit [SL0108]`)
	wrong(`small: "1"`, `14: stages.s.with.small: want a whole number, have the text "1" [SL0105]`)
	wrong(`count: -1`, `14: stages.s.with.count: want a whole number, not negative, have the number -1 [SL0105]`)
	wrong(`limit: true`, `14: stages.s.with.limit: want a whole number, have true [SL0105]`)
	wrong(`every: [1s]`, `14: stages.s.with.every: want a duration such as 30s or 1m30s, have a list [SL0105]`)
	wrong(`every: 5`, `14: stages.s.with.every: want a duration such as 30s or 1m30s, have the number 5 [SL0105]`)
	wrong(`size: 4MB`, `13: stages.s.with.size: want a size such as 4KiB [SL0108]`)
	wrong(`size: {}`, `13: stages.s.with.size: want text, have a mapping [SL0105]`)
	wrong(`columns: a`, `16: stages.s.with.columns: want a list, have the text "a" [SL0105]`)
	wrong(`columns: [a, ~]`, `20: stages.s.with.columns[1] is empty [SL0105]`)
	wrong(`batches: [{}, {max_events: x}]`, `34: stages.s.with.batches[1].max_events: want a whole number, have the text "x" [SL0105]`)
	wrong(`labels: [a]`, `15: stages.s.with.labels: want a mapping, have a list [SL0105]`)
	wrong(`labels: {a: {}}`, `19: stages.s.with.labels.a: want text, have a mapping [SL0105]`)
	wrong(`{small: x, follow: x, pth: x}`,
		`15: stages.s.with.small: want a whole number, have the text "x" [SL0105]`,
		`26: stages.s.with.follow: want true or false, have the text "x" [SL0105]`,
		`29: unknown key "pth" in stages.s.with, did you mean "path"? [SL0103]`)

	err := section(t, "      a: 1\n").Decode(&struct{}{})
	require.EqualError(t, err, `f:7:7: unknown key "a" in stages.s.with: it takes none [SL0103]`)
}

// These are mistakes of the program, not of the file.
func TestDecodePanics(t *testing.T) {
	s := section(t, "      a: {b: c}\n")
	require.Panics(t, func() { _ = s.Decode(settings{}) })
	require.Panics(t, func() { _ = s.Decode(new(string)) })
	require.Panics(t, func() { _ = s.Decode((*settings)(nil)) })
	require.Panics(t, func() { _ = s.Decode(&struct{ A chan int }{}) })
	require.Panics(t, func() { _ = s.Decode(&struct{ A map[int]string }{}) })
	require.Panics(t, func() { _ = s.Decode(&struct{ A error }{}) })
}

// The kinds of stages report what only they know.
func TestProblemsOfBuilders(t *testing.T) {
	f := parse(t, "stages:\n  s: {source: flie, with: {expr: 'a +', more: }}\n  t: {source: x}\n")
	s, empty := f.Stages[0], f.Stages[1]

	e := f.Errorf(s.TypePos, "there is no %v of type %q", s.Kind, s.Type)
	e.Hint = Suggest(s.Type, []string{"exec", "file", "http"})
	require.EqualError(t, e, `f:4:15: there is no source of type "flie", did you mean "file"? [SL0120]`)

	require.EqualError(t, s.With.Errorf("expr", "does not compile: %s", "unexpected end"),
		`f:4:34: stages.s.with.expr: does not compile: unexpected end [SL0120]`)
	require.EqualError(t, s.With.Errorf("path", "is required"), `f:4:27: stages.s.with.path: is required [SL0120]`)
	require.EqualError(t, empty.With.Errorf("path", "is required"), `f:5:3: stages.t.with.path: is required [SL0120]`)
	require.EqualError(t, empty.With.Errorf("", "says nothing"), `f:5:3: stages.t.with: says nothing [SL0120]`)

	require.True(t, s.With.Has("expr"))
	require.False(t, s.With.Has("more"), "a key alone gives no value")
	require.False(t, empty.With.Has("expr"))
	require.Equal(t, Pos{4, 41}, s.With.Pos("more"))
}
