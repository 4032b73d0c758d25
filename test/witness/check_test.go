//go:build linux

package witness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ledger writes the files of a pipeline, and returns what its check says of the outlet
// of the source and that of the gate.
func ledger(t *testing.T, p Pipeline, files map[string]string, killed ...incarnation) (raw, done []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		lines := ""
		for line := range strings.Lines(strings.TrimSpace(text)) {
			lines += strings.TrimSpace(line) + "\n"
		}
		lines = strings.TrimSuffix(lines, "~\n") // which stands for a line that is not whole
		require.NoError(t, os.WriteFile(filepath.Join(dir, p.Name+"."+name), []byte(lines), 0o600))
	}
	dead := map[incarnation]bool{}
	for _, k := range killed {
		dead[k] = true
	}
	r, d, err := readHops(dir, p, dead)
	require.NoError(t, err)
	return check(r).Offences, check(d).Offences
}

// What the ledger must see: each row is a clean ledger, or one with one thing wrong.
func TestLedger(t *testing.T) {
	demand := Pipeline{Name: "p", Dispatcher: "demand", Sinks: 2, MaxDemand: 4}
	steady, broadcast, atMostOnce := demand, demand, demand
	steady.Steady, broadcast.Dispatcher, atMostOnce.AtMostOnce = true, "broadcast", true
	one, two, gate := incarnation{"one", 1}, incarnation{"two", 1}, incarnation{"g", 1}
	const emitted = "E 10\nX"
	for _, test := range []struct {
		name   string
		p      Pipeline
		gate   string
		one    string
		two    string
		killed []incarnation
		says   string // empty: clean
	}{
		{name: "clean", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-4,9-10\nS 1 shutdown", two: "B 1 1 false 0 1 5-8\nS 1 cancelled"},
		{name: "lost", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-4,10-10\nS 1 shutdown", two: "B 1 1 false 0 1 5-8\nS 1 shutdown", says: "1 events of g/1 are lost"},
		{name: "lost, and reported", p: demand, gate: "E 10\nD 1 stage ended\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown"},
		{name: "lost, and reported as a mistake", p: demand, gate: "E 10\nD 1 not given back\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown", says: "g/1 discarded 1 events: not given back"},
		{name: "reported, and handled", p: demand, gate: "E 10\nD 1 stage ended\nX", one: "B 1 1 false 0 1 1-10\nS 1 shutdown", says: "1 of them were handled by some that lived"},
		{name: "reported, and handled by one that is gone", p: demand, gate: "E 10\nD 1 stage ended\nX", one: "B 1 1 false 0 1 1-10\nS 1 lost"},
		{name: "reported of one that is gone, more than it asked for", p: demand, gate: "E 10\nD 5 stage ended\nX", one: "B 1 1 false 0 1 1-10\nS 1 lost", says: "1 of them were handled"},
		{name: "a gate that does not say that it ended", p: demand, gate: "E 10", one: "B 1 1 false 0 1 1-10\nS 1 shutdown", says: "g/1 was not killed, and has not said"},
		{name: "held by a killed gate", p: demand, gate: "E 20", one: "B 1 1 false 0 1 1-8\nS 1 lost", killed: []incarnation{gate}},
		{name: "more than a killed gate held", p: demand, gate: "E 20", one: "B 1 1 false 0 1 1-7\nS 1 lost", killed: []incarnation{gate}, says: "13 events of g/1 are lost, 12 at most"},
		{name: "twice", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 shutdown", two: "B 1 1 true 1 1 5-5\nS 1 shutdown", says: "by one that lived"},
		{name: "twice after a kill", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10", two: "B 1 1 true 1 1 9-10\nS 1 shutdown", killed: []incarnation{one}},
		{name: "twice after the window", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 lost why", two: "B 1 1 true 0 1 9-10\nS 1 shutdown"},
		{name: "twice after a drain that was cut off", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 cancelled node g could not be told what was processed", two: "B 1 1 true 0 1 9-10\nS 1 shutdown"},
		{name: "twice after a drain", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 cancelled <nil>", two: "B 1 1 true 0 1 9-10\nS 1 shutdown", says: "first by one that lived"},
		{name: "twice, and a third time", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-4\nS 1 lost\nB 2 1 false 0 1 5-10\nB 2 7 true 0 1 2-4\nS 2 shutdown", two: "B 1 1 true 0 1 1-4\nS 1 lost"},
		{name: "given back by one that lived", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 shutdown", two: "B 1 1 true 0 1 9-10\nS 1 lost", says: "first by one that lived"},
		{name: "unmarked", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10", two: "B 1 1 false 0 1 9-10\nS 1 shutdown", killed: []incarnation{one}, says: "2 times unmarked"},
		{name: "more repeated than asked for", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10", two: "B 1 1 true 0 1 6-10\nS 1 shutdown", killed: []incarnation{one}, says: "5 of its events of g/1 were repeated"},
		{name: "out of order", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-5\nB 1 6 false 0 1 7-10,6-6\nS 1 shutdown", says: "event 6 of run 1 came after 10"},
		{name: "twice in one subscription", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nB 1 11 true 0 1 3-3\nS 1 shutdown", says: "by one that lived"},
		{name: "a position left out", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-5\nB 1 7 false 0 1 6-10\nS 1 shutdown", says: "position 7 follows on 5"},
		{name: "never emitted", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-11\nS 1 shutdown", says: "event 11 of run 1 was never emitted"},
		{name: "nobody says how it ended", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10", says: "nobody said how it ended"},
		{name: "failed", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 failed why", says: "ended as failed: why"},
		{name: "steady", p: steady, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 shutdown"},
		{name: "steady, and not all of it", p: steady, gate: "E 10\nD 1 stage ended\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown", says: "discarded 1 events: stage ended"},
		{name: "steady and lost", p: steady, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 lost why", says: `ended as "lost": why`},
		{name: "steady and marked", p: steady, gate: emitted, one: "B 1 1 false 0 1 1-5\nB 1 6 true 0 1 6-10\nS 1 shutdown", says: "event 6 of run 1 came again"},
		{name: "a broadcast", p: broadcast, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 shutdown", two: "B 1 1 false 0 1 3-5\nS 1 lost\nB 2 1 false 0 1 8-10\nS 2 shutdown"},
		{name: "a gap in a broadcast", p: broadcast, gate: emitted, one: "B 1 1 false 0 1 1-4,6-10\nS 1 shutdown", says: "event 6 of run 1 follows on 4"},
		{name: "a broadcast that stops short", p: broadcast, gate: emitted, one: "B 1 1 false 0 1 1-9\nS 1 shutdown", says: "the last 1 events"},
		{name: "a broadcast that stops short of its end", p: broadcast, gate: "E 10\nD 1 stage ended\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown"},
		{name: "a copy is no end", p: broadcast, gate: "E 10\nD 1 broadcast copy\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown", says: "the last 1 events"},
		{name: "a copy of what goes to one", p: demand, gate: "E 10\nD 1 broadcast copy\nX", one: "B 1 1 false 0 1 1-9\nS 1 shutdown", says: "discarded 1 events: broadcast copy"},
		{name: "a broadcast that repeats", p: broadcast, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 lost\nB 2 1 false 0 1 10-10\nS 2 shutdown", says: "was handled 2 times"},
		{name: "at most once", p: atMostOnce, gate: "E 10\nD 2 at most once\nX", one: "B 1 1 false 0 1 1-8", killed: []incarnation{one}},
		{name: "at most once, and nobody said", p: atMostOnce, gate: emitted, one: "B 1 1 false 0 1 1-8", killed: []incarnation{one}, says: "2 events of g/1 are lost"},
		{name: "at most once, and twice", p: atMostOnce, gate: emitted, one: "B 1 1 false 0 1 1-10", two: "B 1 1 false 0 1 10-10", killed: []incarnation{one, two}, says: "was handled 2 times"},
		{name: "a line that is not whole", p: demand, gate: emitted, one: "B 1 1 false 0 1 1-10\nS 1 shutdown", two: "B 1 1 false 0 1 1~", killed: []incarnation{two}},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"gate.g.1": test.gate, "sink.one.1": test.one}
			if test.two != "" {
				files["sink.two.1"] = test.two
			}
			_, got := ledger(t, test.p, files, test.killed...)
			if test.says == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			require.Contains(t, strings.Join(got, "\n"), test.says)
		})
	}
}
