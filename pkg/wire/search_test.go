package wire

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var deep = flag.Bool("deep", false, "let TestSearch go one event and one break of the stream further: minutes, and gigabytes")

// TestSearch goes through everything that can happen to a small subscription, in
// every order: breaks of the stream, given up by either side while it still carries
// the other way, at every step; cancels, failures, windows that are over, crashes.
// In every state the laws hold and nothing is lost, and from every state the end
// can be reached without another fault. It goes further with
//
//	go test ./pkg/wire -run Search -timeout 1h -v -args -deep
func TestSearch(t *testing.T) {
	for name, b := range map[string]bounds{
		"breaks":             {events: 2, max: 2, min: 1, cuts: 3},
		"one at a time":      {events: 3, max: 1, min: 0, cuts: 2},
		"window of 3":        {events: 4, max: 3, min: 1, cuts: 2},
		"small memory":       {events: 3, max: 3, min: 1, unacked: 1, cuts: 2},
		"little ahead":       {events: 3, max: 3, min: 1, ahead: 1, cuts: 2},
		"held":               {events: 3, max: 3, min: 0, hold: true, cuts: 2},
		"workers":            {events: 3, max: 3, min: 1, workers: true, cuts: 2},
		"drain":              {events: 2, max: 2, min: 1, cuts: 2, drains: 1},
		"failure":            {events: 2, max: 2, min: 1, cuts: 2, fails: 1},
		"drain, failure":     {events: 2, max: 2, min: 1, cuts: 1, drains: 1, fails: 1},
		"workers fail":       {events: 3, max: 3, min: 1, workers: true, cuts: 1, fails: 1},
		"C's window":         {events: 2, max: 2, min: 1, cuts: 2, expiries: 1},
		"P's window":         {events: 2, max: 2, min: 1, cuts: 2, late: 1},
		"P crashes":          {events: 2, max: 2, min: 1, cuts: 2, crashes: 1},
		"P crashes, C fails": {events: 2, max: 2, min: 1, cuts: 1, crashes: 1, fails: 1},
		"C restarts":         {events: 2, max: 2, min: 1, cuts: 1, restarts: 1},
		"both restart":       {events: 2, max: 2, min: 1, cuts: 1, restarts: 1, crashes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if *deep {
				b.events++
				b.cuts++
			}
			states, trace := search(b.caps())
			require.Empty(t, trace)
			t.Logf("%d states", states)
		})
	}
}

// caps fills in what a search needs to be finite.
func (b bounds) caps() bounds {
	b.upCap, b.dnCap = 3, 2
	if b.unacked == 0 {
		b.unacked = 100
	}
	if b.ahead == 0 {
		b.ahead = 100
	}
	return b
}

// search returns the number of states, and the shortest way to one that is bad or
// that has no way to the end.
func search(b bounds) (int, string) { return searchFrom(newWorld(b)) }

func searchFrom(w *world) (int, string) {
	type from struct {
		state int
		step  string
	}
	known := map[uint64]int{}
	var came []from
	var back [][]int // by steps that are no faults
	var ends []int
	queue := []*world{w}
	add := func(w *world, f from) (int, bool) {
		h := w.key()
		if id, ok := known[h]; ok {
			return id, false
		}
		id := len(came)
		known[h] = id
		came = append(came, f)
		back = append(back, nil)
		if w.final() {
			ends = append(ends, id)
		}
		return id, true
	}
	trace := func(id int, last ...string) string {
		for ; id > 0; id = came[id].state {
			last = append([]string{came[id].step}, last...)
		}
		return strings.Join(last, "\n")
	}
	add(queue[0], from{-1, ""})
	for at := 0; at < len(queue); at++ {
		w := queue[at]
		queue[at] = nil
		for _, s := range w.steps() {
			v := w.try(s)
			if v.bad != "" {
				return len(came), trace(at, s.name, v.bad)
			}
			id, fresh := add(v, from{at, s.name})
			if fresh {
				queue = append(queue, v)
			}
			if !s.fault {
				back[id] = append(back[id], at)
			}
		}
	}
	reaches := make([]bool, len(came))
	for len(ends) > 0 {
		id := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !reaches[id] {
			reaches[id] = true
			ends = append(ends, back[id]...)
		}
	}
	for id := range came {
		if !reaches[id] {
			return len(came), trace(id, "the end cannot be reached from here")
		}
	}
	return len(came), ""
}

// TestWalk goes further than a search can: long subscriptions with many faults, on
// random ways. When the faults are over, every way leads to the end.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(1, 8).Draw(t, "max"))
		b := bounds{
			events:   rapid.IntRange(0, maxEvents).Draw(t, "events"),
			max:      limit,
			min:      rapid.Int64Range(0, limit-1).Draw(t, "min"),
			unacked:  rapid.Int64Range(1, 9).Draw(t, "max_unacked"),
			ahead:    rapid.Int64Range(1, 9).Draw(t, "ahead"),
			workers:  rapid.Bool().Draw(t, "workers"),
			cuts:     rapid.IntRange(0, 20).Draw(t, "cuts"),
			drains:   rapid.IntRange(0, 1).Draw(t, "drains"),
			fails:    rapid.IntRange(0, 1).Draw(t, "fails"),
			expiries: rapid.IntRange(0, 1).Draw(t, "expiries"),
			late:     rapid.IntRange(0, 1).Draw(t, "late"),
			crashes:  rapid.IntRange(0, 1).Draw(t, "crashes"),
			restarts: rapid.IntRange(0, 2).Draw(t, "restarts"),
			upCap:    rapid.IntRange(1, 8).Draw(t, "up"),
			dnCap:    rapid.IntRange(1, 8).Draw(t, "down"),
		}
		way := rapid.Uint64().Draw(t, "way")
		for i := range uint64(20) {
			steps, bad := walk(newWorld(b), rand.New(rand.NewPCG(way, i)))
			require.Empty(t, bad, strings.Join(steps, "\n"))
		}
	})
}

// walk goes on until everything is over, and returns the steps it took and what
// was bad about them. It chooses a fault now and then, so that a subscription gets
// somewhere between two of them.
func walk(w *world, random *rand.Rand) (taken []string, bad string) {
	const patience = 4000
	for i := 0; !w.final(); i++ {
		steps := w.steps()
		if len(steps) == 0 || i == patience {
			return taken, "no end is in sight"
		}
		s := steps[random.IntN(len(steps))]
		if s.fault && (random.IntN(8) > 0 || i > patience/2) {
			continue
		}
		w = w.try(s)
		taken = append(taken, s.name)
		if w.bad != "" {
			return taken, w.bad
		}
	}
	return taken, ""
}
