package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const example = "testdata/example.yaml"

func TestExample(t *testing.T) {
	f, err := Load(example)
	require.NoError(t, err)
	require.Equal(t, example, f.Path)
	require.Equal(t, 1, f.Version)
	require.Equal(t, Node{Name: "a"}, f.Node)
	require.Equal(t, Listen{GRPC{Address: "127.0.0.1:7301"}}, f.Listen)
	require.Equal(t, Cluster{Name: "demo", Bind: "127.0.0.1:7401", Join: []string{"127.0.0.1:7401"}}, f.Cluster)

	with := make([]map[string]any, len(f.Stages))
	for i := range f.Stages {
		with[i] = plain(f.Stages[i].With.root).(map[string]any)
		f.Stages[i].With = nil
	}
	require.Equal(t, []Stage{
		{Name: "lines", Kind: Source, Type: "file", Pos: Pos{6, 3}, TypePos: Pos{6, 19}},
		{
			Name: "long", Kind: Gate, Type: "filter", Pos: Pos{7, 3}, TypePos: Pos{7, 17},
			From: []From{{Outlet: "lines", Pos: Pos{7, 31}}},
		},
		{
			Name: "loud", Kind: Gate, Type: "map", Pos: Pos{8, 3}, TypePos: Pos{8, 17},
			From: []From{{Outlet: "long", MaxDemand: new(100), MinDemand: new(50), Pos: Pos{8, 29}}},
		},
		{
			Name: "out", Kind: Sink, Type: "file", Pos: Pos{9, 3}, TypePos: Pos{9, 17},
			From: []From{{Outlet: "loud", Pos: Pos{9, 29}}},
		},
	}, f.Stages)
	require.Equal(t, []map[string]any{
		{"path": "in.txt"}, {"expr": "len(event) > 80"}, {"expr": "upper(event)"}, {"path": "out.txt"},
	}, with)

	require.Equal(t, Pos{3, 26}, f.Pos("listen", "grpc", "address"))
	require.Equal(t, Pos{4, 10}, f.Pos("cluster", "nothing"), "as far as it goes")
	require.Equal(t, Pos{1, 1}, f.Pos("nothing"))
}

func TestDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"absent":  "version: 1\nnode: {name: a}\n",
		"empty":   "version: 1\nnode: {name: a}\nlisten:\ncluster:\nstages:\n",
		"emptier": "version: 1\nnode: {name: a}\nlisten: {grpc: }\ncluster: {name: , bind: ~, join: null}\nstages: {}\n",
		"written": "version: 1\nnode: {name: a}\nlisten: {grpc: {advertise: ''}}\ncluster: {name: '', join: []}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("f", []byte(text))
			require.NoError(t, err)
			require.Equal(t, "127.0.0.1:7301", f.Listen.GRPC.Address)
			require.Empty(t, f.Listen.GRPC.Advertise)
			require.Equal(t, "127.0.0.1:7401", f.Cluster.Bind)
			require.Empty(t, f.Cluster.Name)
			require.Empty(t, f.Cluster.Join)
			require.Empty(t, f.Stages)
		})
	}
}

// parse takes the part of a file that a test is about.
func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f", []byte("version: 1\nnode: {name: a}\n"+text))
	require.NoError(t, err)
	return f
}

func TestAddresses(t *testing.T) {
	for _, text := range []string{
		`listen: {grpc: {address: "localhost:0"}}`,
		`listen: {grpc: {address: ":7301"}}`,
		`listen: {grpc: {address: "[::]:7301", advertise: "node-a.example:7301"}}`,
		`cluster: {bind: "0.0.0.0:0"}`,
		`cluster: {bind: "[::1]:7401"}`,
		`cluster: {bind: "[::1]:7401", join: ["[0:0::1]:7401"]}`, // this node, written otherwise
		`cluster: {name: demo, join: ["seed.example:7401", "10.0.0.2:7401"]}`,
	} {
		parse(t, text)
	}
}

func TestFrom(t *testing.T) {
	of := func(text string) []From {
		t.Helper()
		from := parse(t, "stages: {s: {sink: x, from: "+text+"}}").Stages[0].From
		for i := range from {
			from[i].Pos, from[i].followPos, from[i].following = Pos{}, Pos{}, ""
		}
		return from
	}
	require.Equal(t, []From{{Outlet: "a"}}, of(`a`))
	require.Equal(t, []From{{Outlet: "7"}}, of(`7`))
	require.Equal(t, []From{{Outlet: "a"}}, of(`[a]`))
	require.Equal(t, []From{{Outlet: "b"}, {Outlet: "a"}}, of(`[b, {outlet: a}]`))
	require.Equal(t, []From{{Outlet: "a", MaxDemand: new(1)}}, of(`{outlet: a, max_demand: 1}`))
	require.Equal(t, []From{{Outlet: "a", MaxDemand: new(10), MinDemand: new(0)}}, of(`{outlet: a, max_demand: 10, min_demand: 0}`))
	require.Equal(t, []From{{Outlet: "a", MinDemand: new(999)}}, of(`{outlet: a, min_demand: 999}`))
	require.Equal(t, []From{{Outlet: "a", ResumeWindow: new(90 * time.Second)}}, of(`{outlet: a, resume_window: 1m30s}`))
	require.Equal(t, []From{{Outlet: "a", ResumeWindow: new(time.Duration(0))}}, of(`{outlet: a, resume_window: 0}`))
	require.Equal(t, []From{{Outlet: "a"}}, of(`{outlet: a, publishers: all}`))
	require.Equal(t, []From{{Outlet: "a"}}, of(`{outlet: a, publishers: , expect: }`))
	require.Equal(t, []From{{Outlet: "a", One: true}}, of(`{outlet: a, publishers: one}`))
	require.Equal(t, []From{{Outlet: "a", Auto: &Auto{}}}, of(`{outlet: a, auto_demand: true}`))
	require.Equal(t, []From{{Outlet: "a"}}, of(`{outlet: a, auto_demand: false}`))
	require.Equal(t, []From{{Outlet: "a", Auto: &Auto{Min: 40_000}, MinDemand: new(39_999)}}, of(`{outlet: a, auto_demand: {min: 40_000}, min_demand: 39999}`))
	require.Equal(t, []From{{Outlet: "a", Auto: &Auto{}}}, of(`{outlet: a, auto_demand: {}}`))
	require.Equal(t, []From{{Outlet: "a", Auto: &Auto{Min: 1, Max: 50, MaxBytes: 1 << 20}}}, of(`{outlet: a, auto_demand: {min: 1, max: 50, max_bytes: 1048576}}`))
	require.Equal(t, []From{{Outlet: "a", Expect: 3}, {Outlet: "b", One: true, Expect: 2}},
		of(`[{outlet: a, expect: 3}, {outlet: b, publishers: one, expect: 2}]`))
}

func TestStagesKeepTheirOrder(t *testing.T) {
	var names []string
	for _, s := range parse(t, "stages:\n  z: {source: x}\n  a: {source: x}\n  m: {source: x}\n  b: {source: x}\n").Stages {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"z", "a", "m", "b"}, names)
}

// What several stages have in common can be written once.
func TestAliases(t *testing.T) {
	f := parse(t, "stages:\n  a: {source: x, with: &w {path: p}}\n  b: {source: x, with: *w}\n")
	for _, s := range f.Stages {
		var with struct{ Path string }
		require.NoError(t, s.With.Decode(&with))
		require.Equal(t, "p", with.Path)
	}
}

func TestLoad(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "missing.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)

	large := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(large, make([]byte, maxBytes+1), 0o600))
	_, err = Load(large)
	require.EqualError(t, err, large+": the file is larger than 1048576 bytes [SL0106]")
}

func TestPolicies(t *testing.T) {
	f := parse(t, `stages:
  a: {source: x, max_attempts: 2, dead_letter: tired}
  b: {gate: x, from: a, on_error: skip, max_attempts: -1}
  c: {gate: x, from: b, on_error: {retry: {attempts: 3}}, dead_letter: tired}
  d: {sink: x, from: c, on_error: {retry: {attempts: 3, delay: 1s, max_delay: 1m, then: dead_letter}}, dead_letter: failed}
  e: {sink: x, from: [failed, tired], on_error: fail}
`)
	require.Equal(t, []string{"tired", "failed"}, f.DeadLetters())
	require.Equal(t, []OnError{
		{}, {Then: Skip}, {Retries: 3}, {Retries: 3, Delay: time.Second, MaxDelay: time.Minute, Then: ToDeadLetter}, {},
	}, []OnError{f.Stages[0].OnError, f.Stages[1].OnError, f.Stages[2].OnError, f.Stages[3].OnError, f.Stages[4].OnError})
	require.Equal(t, []int{2, -1, 0}, []int{f.Stages[0].MaxAttempts, f.Stages[1].MaxAttempts, f.Stages[2].MaxAttempts})
}
