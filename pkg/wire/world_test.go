package wire

import (
	"fmt"
	"slices"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A world is both halves of a subscription, over streams that can break at any
// moment and deliver late, with the least of owners around them: a dispatcher that
// has the one subscriber, a stage that processes, and a second consumer for what is
// given back. It is a value that is cloned, so that every step can be tried.
type world struct {
	bounds

	c         *Consumer
	queue     []int64 // events that wait to be processed, by position c.acked+1..., 0 for done
	cOver     Outcome // Going: not over
	p         *Producer
	ring      []int // events at positions p.acked+1..p.sent
	credit    int64 // that the dispatcher holds for the subscriber
	last      Triple
	epoch     uint64
	buffer    []int
	marked    uint64 // events that were given back, by bit
	stageDone bool
	streams   []stream
	processed [maxEvents + 1]uint8
	excused   uint64 // events that a crash of the producer took along
	apart     bool   // a window was over, or a process crashed: duplicates are allowed if marked
	bad       string
}

// bounds are what a world may still do, or has to.
type bounds struct {
	events       int
	max, min     int64
	unacked      int64
	ahead        int64
	workers      bool // the consumer processes in any order
	hold         bool // the consumer never asks again
	cuts         int
	drains       int
	fails        int
	expiries     int // of the consumer's window
	late         int // the producer's window is over while the consumer still tries
	crashes      int // of the producer
	restarts     int // of the consumer, as another incarnation
	upCap, dnCap int
}

const maxEvents = 20

// stream is what is on its way. A frame, once sent, is never written to.
type stream struct {
	id                  Triple // of its Open
	up, down            []letter
	broken, cGone, gone bool // cut; left by the consumer; left by the producer
}

type letter struct {
	up      *sluicev1.SubscriberFrame // nil: half-close
	down    *sluicev1.ProducerFrame
	ids     []int
	refused error // status
	ok      bool  // status OK
	key     string
}

func newWorld(b bounds) *world {
	w := &world{bounds: b, c: NewConsumer(1, 1, b.max), epoch: firstEpoch}
	for id := 1; id <= b.events; id++ {
		w.buffer = append(w.buffer, id)
	}
	return w
}

func (w *world) clone() *world {
	v := *w
	v.c = w.c.clone()
	if w.p != nil {
		p := *w.p
		p.done = w.p.done.Clone()
		v.p = &p
	}
	v.queue, v.ring, v.buffer = slices.Clone(w.queue), slices.Clone(w.ring), slices.Clone(w.buffer)
	v.streams = slices.Clone(w.streams)
	for i := range v.streams {
		s := &v.streams[i]
		s.up, s.down = slices.Clone(s.up), slices.Clone(s.down)
	}
	return &v
}

func (c *Consumer) clone() *Consumer {
	d := *c
	d.done, d.on.untold = c.done.Clone(), c.on.untold.Clone()
	return &d
}

func (w *world) fail(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// must is for what the peer or the owner never does wrong here.
func (w *world) must(err error) {
	if err != nil {
		w.fail("VIOLATION: %v", err)
	}
}

// ofC is the consumer's stream, or nil.
func (w *world) ofC() *stream {
	return w.find(Triple{w.c.last.Incarnation, w.c.last.Session, w.c.Stream()})
}

// ofP is the producer's stream, or nil.
func (w *world) ofP() *stream {
	if w.p == nil {
		return nil
	}
	if w.p.Stream() == 0 {
		return nil
	}
	return w.find(w.p.Triple())
}

func (w *world) find(id Triple) *stream {
	for i := range w.streams {
		if w.streams[i].id == id {
			return &w.streams[i]
		}
	}
	return nil
}

// tidy forgets what can reach nobody.
func (w *world) tidy() {
	for i := range w.streams {
		s := &w.streams[i]
		if s.broken {
			s.up, s.down = nil, nil
		}
		if s.cGone {
			s.down = nil
		}
		if s.gone {
			s.up = nil
		}
	}
	w.streams = slices.DeleteFunc(w.streams, func(s stream) bool { return s.cGone && s.gone })
}

// final: nothing is left to do, anywhere.
func (w *world) final() bool {
	return w.cOver != Going && len(w.queue) == 0 && w.p == nil && w.stageDone && len(w.buffer) == 0
}
