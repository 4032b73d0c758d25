package config

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parse never panics. What it returns keeps what it promises, and what it refuses
// it refuses with positions that are in the file, in their order.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(example)
	require.NoError(f, err)
	f.Add(data)
	for _, seed := range []string{
		"", "---\n", "- a", "\xff", "a: \x00", "{", "a: *x", "a: &x [*x]", "a: &x {*x : 1}", "<<: {a: 1}", "? [a]\n: b", "!t a: !!str b", "a: |\n b\n",
		"version: 1\nnode: {name: a}\nstages: &s {a: {gate: x, from: b}, b: {gate: y, from: [a, {outlet: a, max_demand: 0}], with: *s}}\n",
		"version: 1\nnode: {name: a}\nstages: {b: {sink: x, from: [{outlet: a, auto_demand: true}, {outlet: c, auto_demand: {min: 5, max: 2}, max_demand: 9}]}}\n",
		"version: 2\nnode: &n {name: *n}\n",
		"version: 1\nnode: {name: a}\ncluster: {bind: '[::1%x]:1', join: [a, ':1', 'b:0', 'c:1', ~, {}]}\nlisten: {grpc: {advertise: '0.0.0.0:1'}}\n",
		"version: 1\nnode: {name: a}\nstages:\n  a: {source: x, from: [], with: {}}\n  b: {sink: [], from: {outlet: ~, resume_window: -1s}}\n  ~: 1\n",
		"versoin: 0x1\nnode: {name: a}\r\nlisten: []\n---\nb: 1\n",
		"\ufeffversion: 1\nnode: {name: a}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if err != nil {
			require.Nil(t, file)
			var all Errors
			require.True(t, errors.As(err, &all))
			require.NotEmpty(t, all)
			require.True(t, slices.IsSortedFunc(all, func(a, b *Error) int { return Pos{a.Line, a.Col}.compare(Pos{b.Line, b.Col}) }))
			for _, e := range all {
				require.Regexp(t, `^SL01\d\d$`, e.Code)
				require.NotEmpty(t, e.What)
				require.NotContains(t, e.Error(), "\n", "one a line")
				require.Equal(t, e.Line > 0, e.Col > 0, e.Error())
			}
			return
		}
		require.Equal(t, 1, file.Version)
		require.NotEmpty(t, file.Node.Name)
		for _, s := range file.Stages {
			require.NotEmpty(t, s.Name)
			require.NotEmpty(t, s.Type)
			require.NotZero(t, s.Kind)
			require.Equal(t, s.Kind == Source, len(s.From) == 0)
			require.NotNil(t, s.With)
			var with settings
			if err := s.With.Decode(&with); err != nil {
				require.NotContains(t, err.(Errors)[0].Error(), "\n", "one a line")
			}
		}
	})
}
