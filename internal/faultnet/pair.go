package faultnet

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// pieceSize is how much a link passes on at once.
const pieceSize = 32 << 10

// pair is one connection through the link.
type pair struct {
	l     *Link
	conns [2]net.Conn // who has dialed, and the target

	// Guarded by the link's lock:
	cut    bool
	frozen [2]bool // by direction
}

// reset ends the connection hard. The lock is held.
func (p *pair) reset() {
	if p.cut {
		return
	}
	p.cut = true
	p.l.pairs = slices.DeleteFunc(p.l.pairs, func(o *pair) bool { return o == p })
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

// piece is what has been read, and when it may be passed on, unless the link is healed
// before.
type piece struct {
	data  []byte
	at    time.Time
	heals int
}

// carry passes on what comes, in one direction, until that ends. A side that closes
// well is passed on too.
func (p *pair) carry(way int) {
	from, to := p.conns[way], p.conns[1-way]
	pieces := make(chan piece, 64)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(pieces)
		var free time.Time // when the bytes before have passed, at the rate of the link
		for {
			data := make([]byte, pieceSize)
			n, err := from.Read(data)
			if n > 0 {
				p.l.mu.Lock()
				at := time.Now().Add(p.l.delay)
				if rate := p.l.rate; rate > 0 {
					free = later(free, time.Now()).Add(time.Duration(n) * time.Second / time.Duration(rate))
					at = later(at, free)
				}
				heals := p.l.heals
				p.l.mu.Unlock()
				pieces <- piece{data[:n], at, heals}
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
		p.wait(x)
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

// wait waits until x may be passed on.
func (p *pair) wait(x piece) {
	for {
		p.l.mu.Lock()
		over := p.cut || p.l.heals != x.heals
		p.l.mu.Unlock()
		left := time.Until(x.at)
		if over || left <= 0 {
			return
		}
		time.Sleep(min(left, 5*time.Millisecond))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *pair) end() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.reset()
}

// pass waits while its direction is stalled or frozen, and returns what of data may pass.
func (p *pair) pass(way int, data []byte) []byte {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for (p.l.stalled[way] || p.frozen[way]) && !p.cut {
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
