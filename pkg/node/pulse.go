package node

import (
	"sync/atomic"
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
)

// pulse is the life of one stream, as one of its ends sees it: whether this end owes
// its peer a sign of life, and whether the peer has been silent for too long.
//
// It has one timer a direction, and a frame resets neither: when a timer fires, it
// looks at when the last frame was, and is set anew or acts. What was said belongs to
// the goroutine that writes. Silence is judged by a goroutine of its own, so it waits
// for nobody, and counts only while the reader waits for a frame: a reader that is busy
// with the last one has no reason to complain. A writer that is held up by flow control
// changes nothing about what is heard.
type pulse struct {
	begin time.Time
	beat  atomic.Int64 // the interval

	said time.Duration // when this end has sent its last frame, since begin
	owes *time.Timer   // see due

	waits  atomic.Int64 // since when the reader waits for a frame; 0 while it does not
	silent *time.Timer
	look   time.Duration // when silent was to fire
	over   atomic.Bool
	cut    func() // ends the stream; it may be called when the stream has just ended
}

func newPulse(beat time.Duration) *pulse {
	p := &pulse{begin: time.Now(), owes: time.NewTimer(beat)}
	p.beat.Store(int64(beat))
	return p
}

func (p *pulse) interval() time.Duration { return time.Duration(p.beat.Load()) }

// now is never 0.
func (p *pulse) now() time.Duration { return max(time.Since(p.begin), 1) }

// spoke says that a frame was sent. The goroutine that writes calls it.
func (p *pulse) spoke() { p.said = p.now() }

// due reports whether a sign of life is due, when owes has fired, and sets owes anew.
// The goroutine that writes calls it.
func (p *pulse) due() bool {
	beat := p.interval()
	quiet := p.now() - p.said
	if quiet < beat {
		p.owes.Reset(beat - quiet)
		return false
	}
	p.owes.Reset(beat)
	return true
}

// judge begins to judge the silence of the peer: cut is called once it has lasted too
// long.
func (p *pulse) judge(cut func()) {
	p.cut = cut
	limit := wire.Silence(p.interval())
	p.look = p.now() + limit
	p.silent = time.AfterFunc(limit, p.listen)
}

// waiting says that the reader waits for a frame from now on, heard that it has one.
func (p *pulse) waiting() { p.waits.Store(int64(p.now())) }
func (p *pulse) heard()   { p.waits.Store(0) }

// listen is what the timer does.
func (p *pulse) listen() {
	if p.over.Load() {
		return
	}
	beat, now := p.interval(), p.now()
	left := wire.Silence(beat)
	if since := time.Duration(p.waits.Load()); since > 0 {
		left -= now - since
	}
	if now-p.look > beat {
		// This process was stopped, or starved. What has come meanwhile is not read yet.
		left = max(left, beat)
	}
	if left <= 0 {
		p.cut()
		return
	}
	p.look = now + left
	p.silent.Reset(left)
}

func (p *pulse) stop() {
	p.over.Store(true)
	p.owes.Stop()
	if p.silent != nil {
		p.silent.Stop()
	}
}
