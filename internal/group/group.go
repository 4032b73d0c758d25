package group

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

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
	last      Departure // that counts
	lastAt    time.Time
	heard     Departure // also where it does not count
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
	if m.left {
		// It was left for somebody else, and may be joined again later.
		g.rest[d.ID] = now.Add(g.terms.Pause)
		return
	}
	g.heard = d
	switch {
	case d.How == Lost:
		g.rest[d.ID] = now.Add(g.terms.Pause)
	case d.How == Refused && m.state == joining && g.last.How != 0 && g.last.How != Refused:
		// It was never one of them, and the group is as it was before.
		g.done[d.ID] = true
		return
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
func (g *Group) Last() Departure { return g.heard }

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
