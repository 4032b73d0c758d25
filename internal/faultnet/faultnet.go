// Package faultnet is a link between two programs that breaks on command.
//
// A [Link] listens on loopback and passes on what it gets to a target, and what the
// target answers. Tests put one between nodes, by letting a node advertise the
// address of a link, and then cut it, refuse connections, slow them down, or let
// them go silent. What a link does is the same every time: nothing in it is random.
package faultnet

import (
	"io"
	"net"
	"sync"
	"time"
)

// pieceSize is how much a link passes on at once.
const pieceSize = 32 << 10

// Link is a TCP proxy. Its methods may be called from any goroutine.
type Link struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	news     sync.Cond // a stall has ended, or connections have been cut
	target   string
	refusing bool
	closed   bool
	delay    time.Duration
	stalled  [2]bool // by direction
	cutAfter int64   // bytes; negative for never
	accepted int
	pairs    map[*pair]struct{}
}

// Directions of a link.
const (
	up   = iota // from who dials to the target
	down        // back
)

// pair is one connection through the link.
type pair struct {
	l     *Link
	conns [2]net.Conn // who has dialed, and the target
	cut   bool        // guarded by the link's lock
}

// Listen returns a link that listens on loopback. It refuses connections until it has
// a target.
func Listen() (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, cutAfter: -1, pairs: map[*pair]struct{}{}}
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
	for p := range l.pairs {
		p.reset()
	}
	return n
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

// Stall lets nothing pass, in one direction or both, until Heal. Connections stay.
func (l *Link) Stall(towardsTarget, back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = [2]bool{towardsTarget, back}
	l.news.Broadcast()
}

// Delay lets everything take d longer, one way. It changes no order.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Heal ends Refuse, Stall, Delay and a CutAfter that has not happened.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing, l.stalled, l.delay, l.cutAfter = false, [2]bool{}, 0, -1
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
		l.mu.Unlock()
		if refused {
			reset(c)
			continue
		}
		l.wg.Go(func() { l.connect(c, target) })
	}
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
	l.pairs[p] = struct{}{}
	l.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { p.carry(up) })
	ways.Go(func() { p.carry(down) })
	ways.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	p.reset()
}

// reset ends the connection hard. The lock is held.
func (p *pair) reset() {
	if p.cut {
		return
	}
	p.cut = true
	delete(p.l.pairs, p)
	reset(p.conns[up])
	reset(p.conns[down])
	p.l.news.Broadcast()
}

// reset closes a connection so that the other side sees that it broke.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// piece is what has been read, and when it may be passed on.
type piece struct {
	data []byte
	at   time.Time
}

// carry passes on what comes, in one direction, until that ends. A side that closes
// well is passed on too.
func (p *pair) carry(way int) {
	from, to := p.conns[way], p.conns[1-way]
	pieces := make(chan piece, 64)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(pieces)
		for {
			data := make([]byte, pieceSize)
			n, err := from.Read(data)
			if n > 0 {
				p.l.mu.Lock()
				at := time.Now().Add(p.l.delay)
				p.l.mu.Unlock()
				pieces <- piece{data[:n], at}
			}
			if err == io.EOF { //nolint:errorlint // as Read returns it
				return
			}
			if err != nil {
				p.end()
				return
			}
		}
	})
	for x := range pieces {
		time.Sleep(time.Until(x.at))
		if data := p.pass(way, x.data); len(data) > 0 {
			if _, err := to.Write(data); err != nil {
				p.end()
			}
		}
		p.spent()
	}
	reader.Wait()
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

func (p *pair) end() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.reset()
}

// pass waits while its direction is stalled, and returns what of data may pass.
func (p *pair) pass(way int, data []byte) []byte {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for p.l.stalled[way] && !p.cut {
		p.l.news.Wait()
	}
	if p.cut {
		return nil
	}
	if left := p.l.cutAfter; left >= 0 {
		data = data[:min(int64(len(data)), left)]
		p.l.cutAfter -= int64(len(data))
	}
	return data
}

// spent cuts when the last byte that may pass has passed.
func (p *pair) spent() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.l.cutAfter == 0 {
		p.l.cutAfter = -1
		p.l.cut()
	}
}
