package group

import (
	"slices"
	"time"
)

// Next says what to do. What it says is taken as done.
func (g *Group) Next(now time.Time) (s Step) {
	defer func() { g.over = g.over || s.Over != nil }()
	switch {
	case g.over:
		return Step{}
	case g.leaving:
		if len(g.members) == 0 {
			s.Over = &Departure{How: Cancelled, Err: g.amiss}
		}
		return s
	}
	g.drop(&s)
	ready, waiting := g.candidates(now, &s)
	if g.terms.One {
		ready = g.choose(now, ready, &s)
	}
	for _, id := range ready {
		g.joins++
		g.members[id] = &member{order: g.joins}
		s.Join = append(s.Join, id)
	}
	s.Over = g.verdict(now, waiting, &s)
	return s
}

// drop leaves who cannot be joined any more, and lets those go whose publisher has
// started anew.
func (g *Group) drop(s *Step) {
	for _, id := range g.ids() {
		m := g.members[id]
		_, seen := g.find(id)
		switch {
		case m.left:
		case m.state == joining && m.unready && !seen: // discovery errs at times
			m.left = true
			s.Leave = append(s.Leave, id)
		case m.state == broken && g.replaced(id) && !m.dropped:
			m.dropped = true
			s.Drop = append(s.Drop, id)
		}
	}
}

// candidates are the publishers that may be joined, in order. waiting says that there
// are more, which are left alone for now.
func (g *Group) candidates(now time.Time, s *Step) (ready []ID, waiting bool) {
	if g.terms.One && g.enough() {
		return nil, false // what it has followed was the whole of it
	}
	for _, p := range g.seen {
		if g.members[p.ID] != nil || g.done[p.ID] || p.Draining || g.replaced(p.ID) {
			continue
		}
		if until, ok := g.rest[p.ID]; ok && now.Before(until) {
			waiting = true
			s.wake(until)
			continue
		}
		ready = append(ready, p.ID)
	}
	return ready, waiting
}

// choose is for who follows one publisher: it returns whom to join beside the members,
// if anybody, and leaves those that are not needed.
func (g *Group) choose(now time.Time, ready []ID, s *Step) []ID {
	var kept ID
	for _, id := range g.ids() {
		if g.healthy(now, id, s) && (kept == ID{} || g.members[kept].state != open) {
			kept = id
		}
	}
	if (kept == ID{}) {
		// Of those that have ended only the first, and only when nobody else is there.
		ready = slices.DeleteFunc(ready, func(id ID) bool {
			p, _ := g.find(id)
			return p.Ended && len(g.members) > 0
		})
		if len(ready) == 0 {
			return nil
		}
		for _, id := range g.ids() {
			g.leaveIf(id, g.members[id].state == joining, s)
		}
		return ready[:1]
	}
	if g.members[kept].state == open {
		// One that broke is back, and another was joined meanwhile.
		for _, id := range g.ids() {
			m := g.members[id]
			g.leaveIf(id, id != kept && (m.state == joining || m.state == open && !g.drains(id)), s)
		}
	}
	return nil
}

func (g *Group) leaveIf(id ID, yes bool, s *Step) {
	if m := g.members[id]; yes && !m.left {
		m.left = true
		s.Leave = append(s.Leave, id)
	}
}

// healthy reports whether a member is one to stay with.
func (g *Group) healthy(now time.Time, id ID, s *Step) bool {
	m := g.members[id]
	_, seen := g.find(id)
	switch {
	case m.left || g.drains(id) || g.replaced(id):
		return false
	case m.state == broken:
		end := m.since.Add(g.terms.Patience)
		if !seen || !now.Before(end) {
			return false
		}
		s.wake(end)
		return true
	}
	return !m.unready
}

func (s *Step) wake(t time.Time) {
	if s.At.IsZero() || t.Before(s.At) {
		s.At = t
	}
}
