package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRules has, for each rule of the protocol that an exhaustive search has shown to
// be needed, the shortest way to where it is. From there on no fault happens, and
// everything that can happen is tried: the laws hold, and the end can be reached.
func TestRules(t *testing.T) {
	t.Parallel()
	opened := []string{"C opens", "P reads on stream 1", "C reads"}
	again := []string{"stream 1 is cut", "C notices", "C opens", "P reads on stream 2"}
	event := []string{"P emits", "P writes", "C reads batch"}
	for name, c := range map[string]struct {
		bounds
		way []string
	}{
		"01 the consumer names its session": {
			bounds{events: 1, max: 1}, way([]string{"C opens", "P reads on stream 1"}, again),
		},
		"02 an open that is late is refused": {
			bounds{events: 2, max: 1}, way(late, event, []string{"C processes 1", "C sends", "P reads on stream 2", "P reads on stream 1"}),
		},
		"03 also when the session is over": {
			bounds{events: 1, max: 1}, way(late, event, []string{
				"C processes 1", "C sends", "P reads on stream 2", "P's stage ends", "P writes End", "C reads", "C sends",
				"P reads on stream 2", "stream 2 is cut", "P reads on stream 1", "C notices", "C opens", "P reads on stream 3",
			}),
		},
		"04 the break of another stream changes nothing": {
			bounds{events: 1, max: 1}, way(late, []string{"P notices the break of stream 1"}),
		},
		"05 an ask that is lost is in the next open": {
			bounds{events: 2, max: 1}, way(opened, event, []string{"C processes 1", "C sends"}, again),
		},
		"06 what is processed without a stream is asked for": {
			bounds{events: 2, max: 1}, way(opened, event, []string{"stream 1 is cut", "C notices", "C processes 1", "C opens", "P reads on stream 2"}),
		},
		"07 what is processed is acknowledged without an ask": {
			bounds{events: 1, max: 3}, way(opened, event, []string{"C processes 1"}),
		},
		"08 the end waits for what may come back": {
			bounds{events: 2, max: 2}, way(opened, event, []string{"C processes 1", "C fails"}),
		},
		"09 an end that is lost is sent again": {
			bounds{max: 1}, way(opened, []string{"P's stage ends", "P writes End"}, again),
		},
		"09 a last word that is lost is no loss": {
			bounds{max: 1}, way(opened, []string{"P's stage ends", "P writes End", "C reads", "C sends", "P reads on stream 1"}, again),
		},
		"10 cancel is said on every stream": {
			bounds{events: 2, max: 1}, way(opened, []string{"C drains", "C sends"}, again),
		},
		"10 who has failed says what is processed": {
			bounds{events: 2, max: 2}, way(opened, event, []string{"C processes 1", "C fails", "C sends", "P reads on stream 1"}),
		},
		"11 what crosses the end is legal": {
			bounds{max: 1}, way(opened, []string{"P's stage ends", "P writes End", "C drains", "C sends", "P reads on stream 1"}),
		},
		"12 what a dead producer gave is kept": {
			bounds{events: 1, max: 1}, way(opened, event, []string{"P crashes", "C notices", "C opens", "P reads on stream 2", "C reads"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.bounds.caps()
			b.cuts, b.drains, b.fails, b.crashes = 5, 1, 1, 1
			w := newWorld(b)
			for _, prefix := range c.way {
				steps := w.steps()
				at := slices.IndexFunc(steps, func(s step) bool { return strings.HasPrefix(s.name, prefix) })
				if at < 0 {
					var names []string
					for _, s := range steps {
						names = append(names, s.name)
					}
					require.Failf(t, "no such step", "%q is none of %q", prefix, names)
				}
				w = w.try(steps[at])
				require.Empty(t, w.bad, prefix)
			}
			w.cuts, w.drains, w.fails, w.crashes = 0, 0, 0, 0
			_, trace := searchFrom(w)
			require.Empty(t, trace)
		})
	}
}

// late lets the second Open of a session overtake the first.
var late = []string{"C opens", "C gives up", "C opens", "P reads on stream 2", "C reads"}

// way joins parts of a way.
func way(parts ...[]string) []string { return slices.Concat(parts...) }
