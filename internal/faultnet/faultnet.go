// Package faultnet is a link between two programs that breaks on command.
//
// A [Link] listens on loopback and passes on what it gets to a target, and what the
// target answers. Tests put one between nodes, by letting a node advertise the
// address of a link, and then cut it, refuse connections, slow them down, or let
// them go silent. What a link does is the same every time: nothing in it is random.
package faultnet

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Link is a TCP proxy. Its methods may be called from any goroutine.
type Link struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	news     sync.Cond // a stall has ended, or connections have been cut
	target   string
	refusing bool
	dropping bool
	closed   bool
	delay    time.Duration
	rate     int     // bytes a second; 0 for no limit
	stalled  [2]bool // by direction
	cutAfter int64   // bytes; negative for never
	accepted int
	heals    int               // how often
	pairs    []*pair           // the oldest first
	dropped  map[net.Conn]bool // black holes: nobody answers
}

// Directions of a link.
const (
	up   = iota // from who dials to the target
	down        // back
)

// Listen returns a link that listens on loopback. It refuses connections until it has
// a target.
func Listen() (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, cutAfter: -1, dropped: map[net.Conn]bool{}}
	l.news.L = &l.mu
	l.wg.Go(l.accept)
	return l, nil
}

// Addr is where the link is dialed.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// To sets the target of connections to come.
func (l *Link) To(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// Cut resets all connections, and returns how many there were. Others may follow.
// What is on its way is lost.
func (l *Link) Cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut()
}

func (l *Link) cut() int {
	n := len(l.pairs)
	for _, p := range slices.Clone(l.pairs) {
		p.reset()
	}
	return n
}

// CutOldest resets the connection that was made first, and reports whether there was
// one.
func (l *Link) CutOldest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pairs) == 0 {
		return false
	}
	l.pairs[0].reset()
	return true
}

// CutAfter cuts, once, when so many bytes more have passed in both directions
// together. The byte after them does not pass.
func (l *Link) CutAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutAfter = bytes
}

// Refuse cuts all connections and lets none be made, until Heal.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing = true
	l.cut()
}

// Drop lets connections to come be made, and nothing pass on them, as a firewall does
// that drops packets, until Heal, which resets them. Those there are go on.
func (l *Link) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropping = true
}

// Throttle lets pass so many bytes a second, on each connection and in each direction;
// 0 for no limit.
func (l *Link) Throttle(rate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

// Stall lets nothing pass, in one direction or both, until Heal. Connections stay: one that is
// stalled in one direction is half open.
func (l *Link) Stall(towardsTarget, back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = [2]bool{towardsTarget, back}
	l.news.Broadcast()
}

// Freeze lets nothing pass on the connections that there are, in one direction or both,
// until Heal. Others may follow, and work: that is what is left of a path that has
// changed.
func (l *Link) Freeze(towardsTarget, back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pairs {
		p.frozen = [2]bool{towardsTarget, back}
	}
	l.news.Broadcast()
}

// Delay lets everything take d longer, one way. It changes no order.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Heal ends Refuse, Drop, Stall, Freeze, Delay, Throttle and a CutAfter that has not happened.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing, l.dropping, l.stalled, l.delay, l.rate, l.cutAfter = false, false, [2]bool{}, 0, 0, -1
	for _, p := range l.pairs {
		p.frozen = [2]bool{}
	}
	l.heals++
	l.undrop()
	l.news.Broadcast()
}

// Accepted is how many connections were made in all, and Open how many there are.
func (l *Link) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Open is how many connections there are.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs)
}

// Close cuts everything and stops. It leaves no goroutine behind.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.cut()
	l.undrop()
	l.news.Broadcast()
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		target, refused := l.target, l.refusing || l.closed || l.target == ""
		dropped := l.dropping && !refused
		if dropped {
			l.dropped[c] = true
		}
		l.mu.Unlock()
		switch {
		case dropped:
			continue
		case refused:
			reset(c)
			continue
		}
		l.wg.Go(func() { l.connect(c, target) })
	}
}

// undrop resets what was dropped. The lock is held.
func (l *Link) undrop() {
	for c := range l.dropped {
		reset(c)
	}
	clear(l.dropped)
}

func (l *Link) connect(c net.Conn, target string) {
	t, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		reset(c)
		return
	}
	p := &pair{l: l, conns: [2]net.Conn{c, t}}
	l.mu.Lock()
	if l.refusing || l.closed {
		l.mu.Unlock()
		reset(c)
		reset(t)
		return
	}
	l.accepted++
	l.pairs = append(l.pairs, p)
	l.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { p.carry(up) })
	ways.Go(func() { p.carry(down) })
	ways.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	p.reset()
}
