package node

import (
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// sender implements session.
func (v *served[T]) sender(s *stream) func(idle bool) *sluicev1.ProducerFrame {
	return (&sender[T]{v: v, s: s}).next
}

// sender makes the frames of one stream. Encoding is user code, and takes its time: it
// happens without the lock, in room that belongs to the stream.
type sender[T any] struct {
	v      *served[T]
	s      *stream
	events []T
}

func (x *sender[T]) next(idle bool) *sluicev1.ProducerFrame {
	v := x.v
	for {
		again, f := x.pick()
		if f == nil && len(x.events) == 0 && idle {
			return x.idle()
		}
		if len(x.events) == 0 {
			return f
		}
		limit := wire.Room(x.s.limit)
		data, n, err := wire.Cut(v.codec, x.events, min(limit, frameRoom), limit, make([][]byte, 0, len(x.events)))
		clear(x.events)
		if again > 0 {
			f = x.again(again, data, n, err)
		} else {
			f = x.emit(data, n, err)
		}
		if f != nil {
			return f
		}
	}
}

// pick returns the next frame that needs no events, or puts the events of the next
// one into x. Where those were sent before, on a stream that broke, again is the
// position of the first.
func (x *sender[T]) pick() (again int64, f *sluicev1.ProducerFrame) {
	v := x.v
	v.mu.Lock()
	defer v.mu.Unlock()
	x.events = x.events[:0]
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
		x.take(alike(v.kept[first-v.core.Acked()-1:][:last-first+1]))
		return first, nil
	}
	if len(v.queue) > 0 {
		switch {
		case v.full():
		case v.short():
			v.p.n.budget.wait(x.s)
		case v.p.n.budget.spent():
			x.take(v.queue[:1]) // as little as can be
		default:
			x.take(v.queue[:v.runs[0]])
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
	f := v.core.Idle(int64(len(v.queue)))
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

func (x *sender[T]) take(items []item[T]) {
	for _, it := range items[:min(len(items), frameEvents)] {
		x.events = append(x.events, it.event)
	}
}

// alike are the first items that may share a frame: events that were tried come alone,
// and fresh ones not with others.
func alike[T any](items []item[T]) []item[T] {
	n := 1
	for n < len(items) && items[0].attempts == 0 && items[n].attempts == 0 && items[n].redelivered == items[0].redelivered {
		n++
	}
	return items[:n]
}

// full reports whether as many bytes are un-acknowledged as may be.
func (v *served[T]) full() bool { return v.bytes > v.p.n.config.MaxUnackedBytes }

// short reports whether the node's budget lets the session wait: not one that holds
// nothing, nor one whose consumer waits for the rest of a delivery, since nothing would
// be acknowledged.
func (v *served[T]) short() bool { return len(v.kept) > 0 && !v.more && v.p.n.budget.spent() }

// again returns the frame of n events, from position first, that were sent before. It
// returns nil when they were acknowledged meanwhile.
func (x *sender[T]) again(first int64, data [][]byte, n int, err error) *sluicev1.ProducerFrame {
	v := x.v
	if err != nil {
		// It could be sent before: the peer takes less now, or the codec has changed
		// its mind. There is no going on behind it.
		v.violated(x.s, err)
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, _, ok := v.core.Pending(); !v.current(x.s) || !ok || at != first {
		return nil
	}
	at := first - v.core.Acked() - 1
	items := v.kept[at : at+int64(n)]
	v.core.Wrote(first + int64(n) - 1)
	return wire.BatchFrame(wire.Batch{First: first, Events: data, Attempts: attempts(items), Backlog: int64(len(v.queue))})
}

// emit gives positions to the first n queued events, which are encoded in data, and
// returns their frame. With an error the first event cannot be sent.
func (x *sender[T]) emit(data [][]byte, n int, err error) *sluicev1.ProducerFrame {
	v := x.v
	v.mu.Lock()
	if !v.current(x.s) || len(v.runs) == 0 {
		v.mu.Unlock()
		return nil
	}
	if err != nil {
		// Frames of this delivery may have said that it goes on. When its rest is discarded,
		// a sign of life says that nothing more of it comes.
		cut := v.more && v.runs[0] == 1
		v.shift(1)
		var f *sluicev1.ProducerFrame
		if cut {
			v.more, f = false, wire.IdleFrame(v.core.Sent(), int64(len(v.queue)))
		}
		v.mu.Unlock()
		v.p.n.log.Warn("event discarded", "outlet", v.p.port.Name(), "why", err)
		v.up.Discard(1, discardReason(err))
		return f
	}
	size := int64(0)
	for _, d := range data {
		size += int64(len(d))
	}
	v.p.n.budget.take(size)
	v.p.size.Store(size / int64(n))
	v.core.Ahead(v.p.ahead())
	step, err := v.core.Emit(int64(n))
	if err != nil {
		v.p.n.budget.free(size)
		v.mu.Unlock()
		// The session has ended, and drop has given back what was queued: not reached.
		v.violated(x.s, err)
		return nil
	}
	at := len(v.kept)
	v.kept = append(v.kept, v.queue[:n]...)
	for i, d := range data {
		v.kept[at+i].bytes = int32(len(d))
	}
	v.bytes += size
	v.p.n.budget.next() // it may have been its turn, and there may be room for another one
	v.more = n < v.runs[0] && !v.full() && !v.p.n.budget.spent()
	batch := wire.Batch{
		First: v.core.Sent() - int64(n) + 1, Events: data, Attempts: attempts(v.kept[at:]),
		// The consumer handles a delivery when it is whole, and acknowledges after that.
		More: v.more, Backlog: int64(len(v.queue) - n),
	}
	v.shift(n)
	v.core.Wrote(v.core.Sent())
	v.mu.Unlock()
	v.do(todo[T]{ask: step.Allot})
	return wire.BatchFrame(batch)
}

// ahead is how many events a session is given that it has not encoded yet: as many as it
// may have un-acknowledged. Their size is not known, so they are taken to be like those
// that were sent last. When the node's budget is used up, it is one at a time.
func (p *published[T]) ahead() int64 {
	if p.n.budget.spent() {
		return 1
	}
	return p.n.config.MaxUnackedBytes / max(p.size.Load(), 1)
}

// shift takes the first n events off the queue. The lock is held.
func (v *served[T]) shift(n int) {
	clear(v.queue[:n])
	v.queue = v.queue[n:]
	if v.runs[0] -= n; v.runs[0] == 0 {
		v.runs = v.runs[1:]
	}
}

// attempts are the attempts of items, nil when none was sent before.
func attempts[T any](items []item[T]) []int32 {
	if len(items) == 0 || !items[0].redelivered {
		return nil
	}
	out := make([]int32, len(items))
	for i, it := range items {
		out[i] = it.attempts
	}
	return out
}
