package stage

import "time"

// meter adds up what a stage's goroutine does with its time. It has one owner at a
// time. The clock is read only when that changes: a stage that always has something to
// do reads none.
type meter struct {
	doing activity
	since time.Time
	spent [activities]time.Duration
}

type activity int

const (
	off     activity = iota // the goroutine has not begun, or the stage ends
	busy                    // it runs a handler
	idle                    // it waits
	blocked                 // it waits for demand of others
	activities
)

// turn says what the goroutine does from now on.
func (m *meter) turn(to activity) {
	if m.doing == to {
		return
	}
	now := time.Now()
	m.spent[m.doing] += now.Sub(m.since)
	m.doing, m.since = to, now
}

// read adds what was spent until now to i.
func (m *meter) read(i *Info) {
	if doing := m.doing; doing != off {
		m.turn(off)
		m.doing = doing
	}
	i.Busy += m.spent[busy]
	i.Idle += m.spent[idle]
	i.Blocked += m.spent[blocked]
}
