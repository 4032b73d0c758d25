//go:build linux

package witness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tally is what the ledger says about one outlet.
type Tally struct {
	Name           string
	Sent, Received int
	// Lost was not handled by anybody. LostKilled of it was emitted by a process that
	// was killed; Discarded is what the others have reported.
	Lost, LostKilled, Discarded int
	// Again was handled marked as redelivered, Twice more than once.
	Again, Twice int
	// Sessions are the subscriptions; Gone were killed or lost.
	Sessions, Gone                   int
	ConsumersKilled, ProducersKilled int
	// Offences are the broken promises, by number.
	Offences []string
}

func (t *Tally) offend(format string, args ...any) {
	t.Offences = append(t.Offences, t.Name+": "+fmt.Sprintf(format, args...))
}

// copyOf is one delivery of an event to a handler.
type copyOf struct {
	s     *session
	again bool
}

// check holds a hop to what is promised:
//
//   - within a subscription positions have no gap, and fresh events come in the order
//     in which they were emitted;
//   - an event that two handlers have had came to one of them marked, and the other's
//     subscription was killed or lost; a subscription has at most max_demand of them;
//   - every event was handled, or discarded and reported for a reason that is none of a
//     mistake, or held by a process that was killed, which holds no more than it was
//     asked for;
//   - what is reported as discarded was not handled too, but by a subscription that was
//     killed or lost;
//   - with at most once, nothing comes twice; what is gone is reported;
//   - a broadcast has no gap within a subscription, and repeats nothing.
func check(h *hop) *Tally {
	t := &Tally{Name: h.name}
	for _, s := range h.sessions {
		t.Sessions++
		if gone(h, s) {
			t.Gone++
		}
		inOrder(h, s, t)
		how(h, s, t)
	}
	for who := range h.killed {
		if slices.ContainsFunc(h.sessions, func(s *session) bool { return s.who == who }) {
			t.ConsumersKilled++
		}
	}
	for _, run := range slices.Sorted(maps.Keys(h.producers)) {
		p := h.producers[run]
		t.Sent += p.emitted
		if h.killed[p.who] {
			t.ProducersKilled++
		} else if !p.ended {
			t.offend("%v was not killed, and has not said that it ended", p.who)
		}
		reasons(h, p, t)
		if h.broadcast {
			for _, node := range nodes(h.sessions) {
				account(h, p, node, t)
			}
		} else {
			account(h, p, "", t)
		}
	}
	return t
}

func nodes(sessions []*session) []string {
	names := map[string]bool{}
	for _, s := range sessions {
		names[s.who.node] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// gone reports whether a subscription ended so that what was not acknowledged went
// back: its process was killed, or its window was over, also while it drained.
func gone(h *hop, s *session) bool {
	return h.killed[s.who] || s.reason == "lost" || s.reason == "cancelled" && strings.Contains(s.why, "could not be told")
}

// how checks how a subscription has ended.
func how(h *hop, s *session, t *Tally) {
	switch {
	case h.steady && s.reason != "cancelled" && s.reason != "shutdown":
		t.offend("%v: ended as %q: %s", s, s.reason, s.why)
	case s.reason == "" && !h.killed[s.who]:
		t.offend("%v: nobody said how it ended", s)
	case s.reason == "failed", s.reason == "refused":
		t.offend("%v: ended as %s: %s", s, s.reason, s.why)
	}
}

// inOrder checks the order within a subscription.
func inOrder(h *hop, s *session, t *Tally) {
	next, run, fresh := int64(1), 0, 0
	for _, b := range s.batches {
		if b.first != next {
			t.offend("%v: position %d follows on %d", s, b.first, next-1)
		}
		next = b.first + int64(b.len())
		if run != 0 && run != b.run {
			t.offend("%v: events of runs %d and %d", s, run, b.run)
		}
		run = b.run
		if b.again {
			t.Again += b.len()
			if h.steady || h.broadcast || h.atMostOnce {
				t.offend("%v: event %d of run %d came again", s, b.ranges[0][0], b.run)
			}
			continue
		}
		if b.attempts > 0 {
			t.offend("%v: event %d of run %d has %d attempts and is not marked", s, b.ranges[0][0], b.run, b.attempts)
		}
		for _, r := range b.ranges {
			switch {
			case r[0] <= fresh:
				t.offend("%v: event %d of run %d came after %d", s, r[0], b.run, fresh)
			case r[0] != fresh+1 && fresh != 0 && (h.broadcast || h.steady):
				t.offend("%v: event %d of run %d follows on %d", s, r[0], b.run, fresh)
			}
			fresh = r[1]
		}
	}
}

// account compares what one process has emitted with what was handled, by anybody, or
// by one node.
func account(h *hop, p *producer, node string, t *Tally) {
	copies := make([][]copyOf, p.emitted+1)
	for _, s := range h.sessions {
		if node != "" && s.who.node != node {
			continue
		}
		for _, b := range s.batches {
			if b.run != p.who.run {
				continue
			}
			t.Received += b.len()
			for _, r := range b.ranges {
				for n := r[0]; n <= r[1]; n++ {
					if n < 1 || n > p.emitted {
						t.offend("%v: event %d of run %d was never emitted", s, n, b.run)
						return
					}
					copies[n] = append(copies[n], copyOf{s, b.again})
				}
			}
		}
	}
	var missing []int
	repeats := map[*session]int{}
	for n, c := range copies[1:] {
		switch {
		case len(c) == 0:
			missing = append(missing, n+1)
		case len(c) > 1:
			t.Twice += len(c) - 1
			repeated(h, p, n+1, c, repeats, t)
		}
	}
	for s, n := range repeats {
		if n > h.maxDemand {
			t.offend("%v: %d of its events of %v were repeated, and it asked for %d at once", s, n, p.who, h.maxDemand)
		}
	}
	if h.broadcast {
		missed(h, p, node, missing, t)
	} else {
		lost(h, p, missing, t)
	}
}

// repeated judges an event that was handled more than once.
func repeated(h *hop, p *producer, n int, c []copyOf, repeats map[*session]int, t *Tally) {
	unmarked, alive, kept := 0, 0, 0
	for _, x := range c {
		if !x.again {
			unmarked++
		}
		if !gone(h, x.s) {
			alive++
		}
		if !x.again && !gone(h, x.s) {
			kept++
		}
	}
	for _, x := range c {
		// Where all are gone, one of those that had it marked was the last to have it.
		if gone(h, x.s) && (alive > 0 || !x.again) {
			repeats[x.s]++
		}
	}
	switch {
	case h.steady || h.atMostOnce || h.broadcast:
		t.offend("event %d of %v was handled %d times: %v and %v", n, p.who, len(c), c[0].s, c[1].s)
	case unmarked > 1:
		t.offend("event %d of %v was handled %d times, %d times unmarked: %v and %v", n, p.who, len(c), unmarked, c[0].s, c[1].s)
	case kept > 0:
		t.offend("event %d of %v was handled %d times, first by one that lived: %v and %v", n, p.who, len(c), c[0].s, c[1].s)
	case alive > 1:
		t.offend("event %d of %v was handled %d times, by %v and %v, and both lived", n, p.who, len(c), c[0].s, c[1].s)
	}
}
