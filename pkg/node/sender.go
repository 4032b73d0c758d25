package node

import (
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// sender implements session.
func (v *served[T]) sender(s *stream) func(idle bool) any {
	return (&sender[T]{v: v, s: s}).next
}

// sender makes the frames of one stream, for whoever sends on it. Encoding is user code,
// and takes its time: it happens without the lock.
type sender[T any] struct {
	v      *served[T]
	s      *stream
	events []T // of the next frame: those of a chunk, which nobody writes to
}

// next returns the next frame, a message or one that is packed, or nil.
func (x *sender[T]) next(idle bool) any {
	v := x.v
	for {
		again, f := x.pick()
		switch {
		case f != nil:
			return f
		case len(x.events) == 0 && idle:
			if f := x.idle(); f != nil {
				return f
			}
			return nil
		case len(x.events) == 0:
			return nil
		}
		buf := bodies.Get(v.p.roomFor(len(x.events)))
		limit := wire.Room(x.s.limit)
		data, n, err := cut(v.codec, x.events, min(limit, frameRoom), limit, (*buf)[:0])
		*buf = data
		x.events = nil
		var batch wire.Batch
		var ok bool
		if again > 0 {
			batch, ok = x.again(again, n, err)
		} else {
			batch, f, ok = x.emit(int64(len(data)), n, err)
		}
		if ok {
			batch.Events = data
			head, body := batch.Frame()
			*buf = body
			return &packed{head: head, body: buf, on: &x.s.flight}
		}
		bodies.Put(buf)
		if f != nil {
			return f
		}
	}
}

// roomFor is about how many bytes a frame of n events has.
func (p *published[T]) roomFor(n int) int {
	const besides = 6 // of an event: its tag and its length
	size := p.size.Load() + besides
	return int(min(int64(n)*size, max(frameRoom, size)) + 64)
}

// pick returns the next frame that needs no events, or puts the events of the next
// one into x. Where those were sent before, on a stream that broke, again is the
// position of the first.
func (x *sender[T]) pick() (again int64, f *sluicev1.ProducerFrame) {
	v := x.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.current(x.s) {
		if v.stream != x.s { // else it has ended, and whoever ends it says why
			x.s.close(errReplaced)
		}
		return 0, nil
	}
	if !v.opened {
		v.opened = true
		return 0, wire.OpenedFrame(v.p.n.incarnation, v.core, wire.Limits{
			UnackedEvents: v.p.n.config.MaxUnacked, UnackedBytes: v.p.n.config.MaxUnackedBytes, FrameBytes: maxAsked,
			Heartbeat: x.s.pulse.interval(),
		})
	}
	if v.p.n.draining.Load() && !v.leaving && !v.core.EndSent() {
		v.leaving = true
		return 0, wire.DrainingFrame(v.p.n.remaining())
	}
	if first, last, ok := v.core.Pending(); ok {
		c, from := v.chunkAt(first)
		x.events = c.events[from:min(from+last-first+1, int64(len(c.events)))]
		return first, nil
	}
	if len(v.queue) > 0 {
		events := v.queue[0].events
		switch {
		case v.full():
		case v.short():
			v.p.n.budget.wait(x.s)
		case v.p.n.budget.spent():
			x.events = events[:1] // as little as can be
		default:
			x.events = events[:min(len(events), frameEvents)]
		}
		return 0, nil
	}
	if v.ending != nil {
		v.core.End(endReason(v.ending.Reason), message(v.ending.Err))
	}
	if end, ok := v.core.EndDue(); ok {
		v.core.WroteEnd()
		return 0, wire.EndFrame(end)
	}
	return 0, nil
}

// chunkAt returns the chunk that holds a position that is kept, and where in it. The lock
// is held.
func (v *served[T]) chunkAt(position int64) (c *chunk[T], at int64) {
	at = position - v.core.Acked() - 1
	i := 0
	for ; at >= int64(len(v.kept[i].events)); i++ {
		at -= int64(len(v.kept[i].events))
	}
	return &v.kept[i], at
}

// idle is a sign of life. Behind End there is none, and only the consumer has something
// to say: when that has acknowledged everything and does not close its side, its stream
// is cut. The session stays for its window, in case that End was not heard.
func (x *sender[T]) idle() *sluicev1.ProducerFrame {
	v := x.v
	v.mu.Lock()
	if !v.current(x.s) {
		v.mu.Unlock()
		return nil
	}
	v.spare.drop()
	f := v.core.Idle(v.waiting)
	late := false
	if v.core.EndSent() && v.core.Unacked() == 0 {
		if v.settled.IsZero() {
			v.settled = time.Now()
		}
		late = time.Since(v.settled) >= v.p.n.tuning.answer
	}
	v.mu.Unlock()
	if late {
		x.s.close(&wire.Error{Rule: wire.RuleSilent, Epoch: v.p.n.incarnation,
			What: "everything is acknowledged, and the subscriber does not close its side"})
		v.broken(x.s)
	}
	return f
}

// full reports whether as many bytes are un-acknowledged as may be.
func (v *served[T]) full() bool { return v.bytes > v.p.n.config.MaxUnackedBytes }

// short reports whether the node's budget lets the session wait: not one that holds
// nothing, nor one whose consumer waits for the rest of a delivery, since nothing would
// be acknowledged.
func (v *served[T]) short() bool { return len(v.kept) > 0 && !v.more && v.p.n.budget.spent() }

// again returns the batch of n events, from position first, that were sent before. It
// reports false when they were acknowledged meanwhile.
func (x *sender[T]) again(first int64, n int, err error) (b wire.Batch, ok bool) {
	v := x.v
	if err != nil {
		// It could be sent before: the peer takes less now, or the codec has changed
		// its mind. There is no going on behind it.
		v.violated(x.s, err)
		return b, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, _, ok := v.core.Pending(); !v.current(x.s) || !ok || at != first {
		return b, false
	}
	c, _ := v.chunkAt(first)
	v.core.Wrote(first + int64(n) - 1)
	return wire.Batch{First: first, Attempts: c.marks(n), Backlog: v.waiting}, true
}

// emit gives positions to the first n queued events, which take size bytes, and returns
// their batch. With an error the first event cannot be sent; then there may be another
// frame to send.
func (x *sender[T]) emit(size int64, n int, err error) (b wire.Batch, f *sluicev1.ProducerFrame, ok bool) {
	v := x.v
	v.mu.Lock()
	if !v.current(x.s) || len(v.queue) == 0 {
		v.mu.Unlock()
		return b, nil, false
	}
	c := &v.queue[0]
	if err != nil {
		// Frames of this delivery may have said that it goes on. When its rest is discarded,
		// a sign of life says that nothing more of it comes.
		cut := v.more && len(c.events) == 1
		v.shift(1)
		if cut {
			v.more, f = false, wire.IdleFrame(v.core.Sent(), v.waiting)
		}
		v.mu.Unlock()
		v.p.n.log.Warn("event discarded", "outlet", v.p.port.Name(), "why", err)
		v.up.Discard(1, discardReason(err))
		return b, f, false
	}
	v.p.n.budget.take(size)
	v.p.size.Store(max(size/int64(n), 1))
	v.core.Ahead(v.p.ahead())
	step, err := v.core.Emit(int64(n))
	if err != nil {
		v.p.n.budget.free(size)
		v.mu.Unlock()
		// The session has ended, and drop has given back what was queued: not reached.
		v.violated(x.s, err)
		return b, nil, false
	}
	v.kept = append(v.kept, chunk[T]{events: c.events[:n:n], room: c.events[:n:n], bytes: size, attempts: c.attempts, redelivered: c.redelivered})
	v.bytes += size
	v.p.n.budget.next() // it may have been its turn, and there may be room for another one
	v.more = n < len(c.events) && !v.full() && !v.p.n.budget.spent()
	b = wire.Batch{
		First: v.core.Sent() - int64(n) + 1, Attempts: c.marks(n),
		// The consumer handles a delivery when it is whole, and acknowledges after that.
		More: v.more, Backlog: v.waiting - int64(n),
	}
	v.shift(n)
	v.core.Wrote(v.core.Sent())
	v.mu.Unlock()
	v.do(todo[T]{ask: step.Allot})
	return b, nil, true
}

// ahead is how many events a session is given that it has not encoded yet: as many as it
// may have un-acknowledged. Their size is not known, so they are taken to be like those
// that were sent last, and to have unknownBytes before any was. When the node's budget is used up,
// it is one at a time.
func (p *published[T]) ahead() int64 {
	if p.n.budget.spent() {
		return 1
	}
	size := p.size.Load()
	if size == 0 {
		size = unknownBytes
	}
	return max(p.n.config.MaxUnackedBytes/size, 1)
}

// unknownBytes is how large an event is taken to be while none was encoded.
const unknownBytes = 1 << 10

// shift takes the first n events of the first chunk off the queue. The lock is held.
func (v *served[T]) shift(n int) {
	c := &v.queue[0]
	v.waiting -= int64(n)
	if c.events = c.events[n:]; len(c.events) == 0 {
		*c = chunk[T]{}
		v.queue = v.queue[1:]
	}
}
