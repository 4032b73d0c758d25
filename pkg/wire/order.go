package wire

import "cmp"

// Triple orders the Opens of one subscriber: a later one is greater.
type Triple struct {
	// Incarnation grows with every start of the subscriber's node.
	Incarnation uint64
	// Session grows with every subscription that the subscriber makes.
	Session uint64
	// Attempt grows with every Open of the session, from 1.
	Attempt uint64
}

// Compare is negative when t is before u, positive when it is after it, and 0 when
// they are the same.
func (t Triple) Compare(u Triple) int {
	return cmp.Or(
		cmp.Compare(t.Incarnation, u.Incarnation),
		cmp.Compare(t.Session, u.Session),
		cmp.Compare(t.Attempt, u.Attempt),
	)
}

// sameSession reports whether both are Opens of one session.
func (t Triple) sameSession(u Triple) bool {
	return t.Incarnation == u.Incarnation && t.Session == u.Session
}

// Verdict is what a producer does about an Open.
type Verdict int

const (
	// Stale: the Open is late, or its sender is an older process. Refuse it by
	// RuleStaleOpen and touch nothing.
	Stale Verdict = iota
	// TakeOver: the session goes on on this stream, with Producer.Resume.
	TakeOver
	// Replace: the subscriber has begun a new session. What the old one holds goes
	// back, with Producer.Expire; then begin the new one.
	Replace
	// Fresh: begin a session.
	Fresh
	// Unknown: the Open wants to go on with a session that is not held. Refuse it by
	// RuleUnknownSession. A session of that subscriber that is held is an older one,
	// which its subscriber has left behind: it goes back, as with Replace.
	Unknown
)

// String is the name of the verdict.
func (v Verdict) String() string {
	return [...]string{"stale", "take-over", "replace", "fresh", "unknown"}[v]
}

// Judge decides about an Open. last is the greatest triple of that subscriber that
// the producer has seen, or zero; held says that the session of last is held; known
// is what the Open says: its sender has seen Opened.
//
// The producer remembers open as the new last unless the verdict is Stale, and
// keeps it for at least a window after the session is gone. Without that, a
// delayed Open of a session that is over would begin a ghost.
func Judge(last Triple, held bool, open Triple, known bool) Verdict {
	switch {
	case open.Compare(last) <= 0:
		return Stale
	case held && open.sameSession(last):
		return TakeOver
	case known:
		return Unknown
	case held:
		return Replace
	}
	return Fresh
}
