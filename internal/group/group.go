package group

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// ID is one publisher: one start of a node.
type ID struct {
	Node        string
	Incarnation uint64
}

// Publisher is what discovery shows of one.
type Publisher struct {
	ID
	// Draining: it is about to leave, and takes no new subscribers.
	Draining bool
	// Ended: its outlet has ended. Who joins is told how.
	Ended bool
}

// Terms are what a subscription wants of its publishers.
type Terms struct {
	// One follows one publisher, and another when that goes. Otherwise all are followed.
	One bool
	// Expect is how many publishers have to complete before the group does. 0 stands for
	// those that are there.
	Expect int
	// Window is how long the group waits for another member when it has none left.
	Window time.Duration
	// Settle is how long it takes discovery to show that a publisher leaves whose
	// outlet has ended: after that it is taken to stay.
	Settle time.Duration
	// Patience is how long one that is followed alone may be unreachable before another
	// is joined beside it.
	Patience time.Duration
	// Pause is how long one that could not be joined, or was lost, is left alone.
	Pause time.Duration
}

// How says how a member has ended.
type How int

// The ways of a member to end.
const (
	Completed How = iota + 1
	Shutdown
	Cancelled
	Failed
	Refused
	Lost
)

// Departure is a member that has ended.
type Departure struct {
	ID
	How How
	Err error
}

// Step is what to do now.
type Step struct {
	// Join are publishers to open a subscription at, in order of preference.
	Join []ID
	// Leave are members to cancel: they finish what they were sent, and end.
	Leave []ID
	// Drop are members whose publisher is known to be gone: they need not wait for it.
	Drop []ID
	// Over says how the group has ended. The members that are left are to be left too.
	Over *Departure
	// At is when to ask again, if nothing happens before; zero for never.
	At time.Time
}

// Group is one subscription. New makes it.
type Group struct {
	terms   Terms
	seen    []Publisher
	members map[ID]*member
	// done are publishers that have ended for good, and are seen still.
	done map[ID]bool
	// rest are publishers that are left alone until then.
	rest map[ID]time.Time
	// completed are the nodes that have completed, as far as they are counted.
	completed map[string]bool
	had       bool      // somebody was open once
	alone     time.Time // since when nobody is open; it counts when had is set
	last      Departure
	lastAt    time.Time
	leaving   bool
	amiss     error // what was not as it should be with members that were cancelled
	over      bool
	joins     int // how many were joined in all
}

// member is a publisher that is followed.
type member struct {
	order    int // of joining
	state    state
	since    time.Time // that it is broken
	unready  bool      // it was tried, in vain
	draining bool      // it said so
	left     bool      // Leave named it
	dropped  bool      // Drop named it
}

type state int

const (
	joining state = iota
	open
	broken
)

// New returns a group without members.
func New(t Terms) *Group {
	return &Group{
		terms: t, members: map[ID]*member{}, done: map[ID]bool{},
		rest: map[ID]time.Time{}, completed: map[string]bool{},
	}
}

// See says who offers the outlet now, in the order of preference.
func (g *Group) See(all []Publisher) {
	g.seen = slices.Clone(all)
	// What is remembered is bounded by what is seen.
	gone := func(id ID) bool { _, ok := g.find(id); return !ok }
	maps.DeleteFunc(g.done, func(id ID, _ bool) bool { return gone(id) })
	maps.DeleteFunc(g.rest, func(id ID, _ time.Time) bool { return gone(id) })
}

// Opened says that a member was accepted, or that its broken stream is back.
func (g *Group) Opened(id ID) {
	if m := g.members[id]; m != nil {
		m.state, m.unready, g.had = open, false, true
	}
}

// Unready says that a member could not be opened, and is tried again.
func (g *Group) Unready(id ID) {
	if m := g.members[id]; m != nil && m.state == joining {
		m.unready = true
	}
}

// Broken says that the stream of a member broke.
func (g *Group) Broken(now time.Time, id ID) {
	if m := g.members[id]; m != nil && m.state == open {
		m.state, m.since = broken, now
		g.lone(now)
	}
}

// Draining says that the publisher of a member is about to leave.
func (g *Group) Draining(id ID) {
	if m := g.members[id]; m != nil {
		m.draining = true
	}
}

// Ended says that a member has ended. Nothing more arrives from it.
func (g *Group) Ended(now time.Time, d Departure) {
	m := g.members[d.ID]
	if m == nil {
		return
	}
	delete(g.members, d.ID)
	if m.state == open {
		g.lone(now)
	}
	if g.leaving && d.How == Cancelled && d.Err != nil {
		g.amiss = errors.Join(g.amiss, d.Err)
	}
	switch {
	case m.left:
		// It was left for somebody else, and may be joined again later.
		g.rest[d.ID] = now.Add(g.terms.Pause)
		return
	case d.How == Lost:
		g.rest[d.ID] = now.Add(g.terms.Pause)
	default:
		g.done[d.ID] = true
	}
	if d.How == Completed && len(g.completed) < max(g.terms.Expect, 1) {
		g.completed[d.Node] = true
	}
	g.last, g.lastAt = d, now
}

// Leave says that the stage wants nothing more. Its members are cancelled by it.
func (g *Group) Leave() { g.leaving = true }

// Leaving reports whether nobody is joined any more.
func (g *Group) Leaving() bool { return g.leaving || g.over }

// Last is how the last member has ended that has; its How is 0 when none has.
func (g *Group) Last() Departure { return g.last }

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

// verdict says whether the group is over, and how.
func (g *Group) verdict(now time.Time, waiting bool, s *Step) *Departure {
	idle := true // nobody is a member, or is about to be one
	was := false // somebody is a member that was accepted once
	for _, m := range g.members {
		idle = idle && m.left && m.state == joining
		was = was || m.state != joining
	}
	if was || g.last.How == 0 {
		return nil
	}
	last := g.last
	if idle && !waiting {
		p, there := g.find(last.ID)
		switch {
		case g.enough():
			return &Departure{How: Completed}
		case last.How == Refused && len(g.completed) == 0:
			return &last
		case last.How == Completed || g.terms.Expect > 0:
			// Others are expected.
		case there && !p.Draining:
			if !now.Before(g.lastAt.Add(g.terms.Settle)) {
				return &last
			}
			s.wake(g.lastAt.Add(g.terms.Settle))
		}
	}
	if g.had && last.How != Completed {
		if end := g.alone.Add(g.terms.Window); now.Before(end) {
			s.wake(end)
		} else {
			return &last
		}
	}
	return nil
}

// enough reports whether as many have completed as have to.
func (g *Group) enough() bool { return len(g.completed) >= max(g.terms.Expect, 1) }

// lone books that nobody is open since now, if that is so.
func (g *Group) lone(now time.Time) {
	for _, m := range g.members {
		if m.state == open {
			return
		}
	}
	g.alone = now
}

func (g *Group) find(id ID) (Publisher, bool) {
	for _, p := range g.seen {
		if p.ID == id {
			return p, true
		}
	}
	return Publisher{}, false
}

// drains reports whether the publisher of a member is about to leave.
func (g *Group) drains(id ID) bool {
	p, _ := g.find(id)
	return p.Draining || g.members[id].draining
}

// replaced reports whether a later start of a node is seen.
func (g *Group) replaced(id ID) bool {
	return slices.ContainsFunc(g.seen, func(p Publisher) bool {
		return p.Node == id.Node && p.Incarnation > id.Incarnation
	})
}

// ids are the members in the order of joining.
func (g *Group) ids() []ID {
	return slices.SortedFunc(maps.Keys(g.members), func(a, b ID) int {
		return cmp.Compare(g.members[a].order, g.members[b].order)
	})
}

func (s *Step) wake(t time.Time) {
	if s.At.IsZero() || t.Before(s.At) {
		s.At = t
	}
}
