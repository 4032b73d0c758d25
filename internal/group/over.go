package group

import "time"

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
		case last.How == Completed || g.terms.Expect > 0 && !g.unfit():
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

// unfit reports whether everybody so far has refused: more of them would not help.
func (g *Group) unfit() bool { return g.last.How == Refused && len(g.completed) == 0 }

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
