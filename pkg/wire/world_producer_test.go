package wire

import (
	"fmt"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The producer of a world, and its owner.

func (w *world) obey(s Step) {
	first := w.p.Sent() - int64(len(w.ring)) + 1
	var back []int
	for _, r := range s.Return {
		for pos := r.First; pos <= r.Last; pos++ {
			back = append(back, w.ring[pos-first])
		}
	}
	if len(back) > 0 && w.stageDone {
		w.fail("events %v came back after the stage has ended", back)
	}
	for _, id := range back {
		w.marked |= 1 << id
	}
	w.buffer = append(back, w.buffer...)
	w.ring = w.ring[s.Release:]
	w.credit += s.Allot
	if w.p.Ended() {
		w.credit = 0
	}
}

func (w *world) pReads(i int) {
	s := &w.streams[i]
	l := s.up[0]
	s.up = s.up[1:]
	if l.up.GetOpen() != nil {
		w.pOpens(s, l)
		return
	}
	if w.ofP() != s {
		return
	}
	if l.up == nil {
		finished, err := w.p.HalfClose()
		w.must(err)
		if finished {
			w.answer(s, letter{ok: true, key: "ok"})
			s.gone = true
			w.p, w.credit = nil, 0
		}
		return
	}
	w.must(CheckSubscriberFrame(l.up))
	var step Step
	var err error
	switch f := l.up.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		step, err = w.p.Ask(f.Ask.GetN(), f.Ask.GetAcked(), DoneOf(f.Ask.GetDone()))
	case *sluicev1.SubscriberFrame_Ack:
		step, err = w.p.Ack(f.Ack.GetAcked(), DoneOf(f.Ack.GetDone()))
	case *sluicev1.SubscriberFrame_Cancel:
		step, err = w.p.Cancel(f.Cancel.GetKind(), f.Cancel.GetAcked(), DoneOf(f.Cancel.GetDone()), DoneOf(f.Cancel.GetTried())...)
	}
	w.must(err)
	w.obey(step)
}

func (w *world) pOpens(s *stream, l letter) {
	_, o, err := ReadOpen(l.up)
	w.must(err)
	verdict := Judge(w.last, w.p != nil, o.Triple, o.Known)
	if verdict != Stale {
		w.last = o.Triple
	}
	refuse := func(rule Rule) {
		w.answer(s, letter{refused: &Error{Rule: rule, Epoch: w.epoch}, key: string(rule) + fmt.Sprint(w.epoch)})
		s.gone = true
	}
	switch verdict {
	case Stale:
		refuse(RuleStaleOpen)
		return
	case Unknown:
		w.pForgets()
		refuse(RuleUnknownSession)
		return
	case TakeOver:
		if old := w.ofP(); old != nil {
			old.gone = true
		}
		step, err := w.p.Resume(o)
		w.must(err)
		w.obey(step)
	case Replace, Fresh:
		w.pForgets()
		p, step, err := NewProducer(o, w.unacked, w.ahead)
		w.must(err)
		w.p = p
		w.obey(step)
		if w.stageDone {
			w.pEnds()
		}
	}
	f := OpenedFrame(w.epoch, w.p, Limits{UnackedEvents: w.unacked, UnackedBytes: 1, FrameBytes: 1})
	w.answer(s, letter{down: f, key: f.String()})
}

// pForgets gives back what the session holds.
func (w *world) pForgets() {
	if w.p == nil {
		return
	}
	if s := w.ofP(); s != nil {
		s.gone = true
	}
	w.obey(w.p.Expire())
	w.p, w.credit = nil, 0
}

func (w *world) pEnds() {
	w.p.End(sluicev1.EndReason_END_REASON_COMPLETED, "")
	w.credit = 0
}

func (w *world) answer(s *stream, l letter) {
	if !s.broken && !s.cGone {
		s.down = append(s.down, l)
	}
}

// pLeaves: the producer notices that a stream is gone, or gives it up.
func (w *world) pLeaves(i int) {
	s := &w.streams[i]
	s.gone = true
	if w.ofP() == s {
		w.p.Detach(w.credit)
		w.credit = 0
	}
}

func (w *world) pEmits(n int64) {
	step, err := w.p.Emit(n)
	w.must(err)
	w.ring = append(w.ring, w.buffer[:n]...)
	w.buffer = w.buffer[n:]
	w.credit -= n
	w.obey(step)
}

func (w *world) pWrites(n int64) {
	first, _, _ := w.p.Pending()
	ids := w.ring[first-w.p.Acked()-1:][:n]
	f := batchFrame(&sluicev1.Batch{First: first, Events: make([][]byte, n)})
	w.answer(w.ofP(), letter{down: f, ids: ids, key: fmt.Sprint("batch", first, ids)})
	w.p.Wrote(first + n - 1)
}

func (w *world) pWritesEnd() {
	end, _ := w.p.EndDue()
	f := EndFrame(end)
	w.answer(w.ofP(), letter{down: f, key: f.String()})
	w.p.WroteEnd()
}

func (w *world) pCrashes() {
	waiting := map[int]bool{}
	for _, id := range w.queue {
		waiting[int(id)] = true
	}
	for id := 1; id <= w.events; id++ {
		if w.processed[id] == 0 && !waiting[id] {
			w.excused |= 1 << id
		}
	}
	w.p, w.ring, w.buffer, w.credit, w.last = nil, nil, nil, 0, Triple{}
	w.epoch++
	w.stageDone, w.apart = true, true
	for i := range w.streams {
		w.streams[i].broken, w.streams[i].gone = true, true
	}
}
