package wire

import (
	"fmt"
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The consumer of a world, and its owner.

func (w *world) cLeave() {
	if s := w.ofC(); s != nil {
		s.cGone = true
	}
}

func (w *world) cEnds(o Outcome) {
	w.cLeave()
	if o == Going {
		return
	}
	w.cOver = o
	if o == LostDrop || o == Refused {
		w.queue = nil
	}
	if !w.apart && o != Completed {
		w.fail("ended as %v with both alive inside the window", o)
	}
}

func (w *world) refill() {
	open := w.c.Granted() - w.c.Acked()
	if !w.hold && open <= w.min && w.c.cancel == 0 && w.c.end == nil {
		w.must(w.c.Ask(w.max - open))
	}
}

func (w *world) cOpens() {
	o := w.c.Open()
	f := OpenFrame(&sluicev1.Open{
		Outlet: "o", Subscriber: &sluicev1.Subscriber{Node: "n", Stage: "s"}, MaxFrameBytes: 1 << 16,
	}, o)
	w.streams = append(w.streams, stream{id: o.Triple, up: []letter{{up: f, key: fmt.Sprint("open", o)}}})
}

func (w *world) cSends() {
	f, halfClose := w.c.Next()
	if f == nil && !halfClose {
		return
	}
	l := letter{up: f, key: "half-close"}
	if f != nil {
		l.key = f.String()
	}
	if s := w.ofC(); !s.broken && !s.gone {
		s.up = append(s.up, l)
	}
}

// canSend: the copy is told what the stream will carry, the original is not.
func (w *world) canSend() bool {
	s := w.ofC()
	if s == nil || len(s.up) >= w.upCap {
		return false
	}
	f, halfClose := w.c.clone().Next()
	return f != nil || halfClose
}

func (w *world) cReads() {
	s := w.ofC()
	l := s.down[0]
	s.down = s.down[1:]
	switch {
	case l.ok:
		w.cEndsOf(w.c.Closed())
	case l.refused != nil:
		e, _ := FromStatus(l.refused.(*Error).Status().Err())
		o := w.c.Refused(e.Rule, e.Epoch)
		for _, id := range w.queue {
			if o == LostKeep && slices.Contains(w.buffer, int(id)) {
				w.fail("event %d was given back, and is to be processed all the same", id)
			}
		}
		w.cEndsOf(o)
	default:
		w.cTakes(l)
	}
}

// cEndsOf ends after the half has let go of its stream.
func (w *world) cEndsOf(o Outcome) {
	for i := range w.streams {
		w.streams[i].cGone = true
	}
	w.cEnds(o)
}

func (w *world) cTakes(l letter) {
	w.must(CheckProducerFrame(l.down))
	switch f := l.down.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		w.must(w.c.Opened(f.Opened.GetEpoch(), f.Opened.GetGranted(), f.Opened.GetNext()))
		w.refill()
	case *sluicev1.ProducerFrame_Batch:
		take, err := w.c.Batch(f.Batch.GetFirst(), int64(len(f.Batch.GetEvents())))
		w.must(err)
		if !take {
			return
		}
		for _, id := range l.ids {
			w.queue = append(w.queue, int64(id))
		}
	case *sluicev1.ProducerFrame_End:
		w.must(w.c.End(f.End.GetLast(), f.End.GetReason(), f.End.GetMessage()))
	}
}

// cProcesses finishes the i-th event of those that wait.
func (w *world) cProcesses(i int) {
	w.count(int(w.queue[i]))
	w.queue[i] = 0
	acked := w.c.Acked()
	for len(w.queue) > 0 && w.queue[0] == 0 {
		w.queue = w.queue[1:]
		acked++
	}
	var done []credit.Range
	var set credit.Ranges
	idle := true
	for j, id := range w.queue {
		if id == 0 {
			set.Add(acked+1+int64(j), acked+1+int64(j))
		} else {
			idle = false
		}
	}
	done = set.All()
	w.must(w.c.Processed(acked, done, idle))
	if w.cOver == Going {
		w.refill()
	}
}

// cFails gives up what is not processed.
func (w *world) cFails() {
	w.must(w.c.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, ""))
	w.cDrops()
}

// cRestarts: another process comes in the place of the consumer's.
func (w *world) cRestarts() {
	w.apart = true
	w.cDrops()
	w.cLeave()
	w.c = NewConsumer(w.c.last.Incarnation+1, 1, w.max)
}

// cDrops: what came from a producer that is gone is nowhere else.
func (w *world) cDrops() {
	if w.epoch > firstEpoch {
		for _, id := range w.queue {
			w.excused |= 1 << id
		}
	}
	w.queue = nil
}

const firstEpoch = 7

func (w *world) count(id int) {
	w.processed[id]++
	switch {
	case w.processed[id] == 1:
	case !w.apart:
		w.fail("event %d was processed twice with both alive inside the window", id)
	case w.marked&(1<<id) == 0:
		w.fail("event %d was processed twice and never marked", id)
	}
}
