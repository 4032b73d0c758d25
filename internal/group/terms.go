package group

import "time"

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
