package wire

import (
	"fmt"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// step is one thing that can happen next in a world. Faults need not happen.
type step struct {
	name  string
	fault bool
	do    func(*world)
}

// try returns the world after a step.
func (w *world) try(s step) *world {
	v := w.clone()
	s.do(v)
	v.tidy()
	v.check()
	return v
}

// steps are all that can happen next.
func (w *world) steps() []step {
	var all []step
	add := func(name string, do func(*world)) { all = append(all, step{name, false, do}) }
	fault := func(budget *int, name string, do func(*world)) {
		if *budget > 0 {
			at := budgetOf(w, budget)
			all = append(all, step{name, true, func(v *world) { *at(v)--; do(v) }})
		}
	}
	w.stepsOfConsumer(add, fault)
	w.stepsOfProducer(add, fault)
	for i := range w.streams {
		if s := w.streams[i]; !s.broken && !(s.cGone && s.gone) {
			fault(&w.cuts, fmt.Sprintf("stream %d is cut", s.id.Attempt), func(v *world) { v.streams[i].broken = true })
		}
	}
	return all
}

func (w *world) stepsOfConsumer(add func(string, func(*world)), fault func(*int, string, func(*world))) {
	for i, id := range w.queue {
		if id != 0 && !w.c.Failed() && (i == 0 || w.workers) {
			add(fmt.Sprintf("C processes %d", id), func(v *world) { v.cProcesses(i) })
		}
	}
	if w.cOver != Going {
		return
	}
	s := w.ofC()
	switch {
	case s == nil && len(w.streams) < 3:
		add("C opens", (*world).cOpens)
	case s == nil:
	case len(s.down) > 0:
		add("C reads "+s.down[0].key, (*world).cReads)
	case s.broken || s.gone:
		add("C notices the break", func(v *world) { v.cLeave(); v.c.Broken() })
	}
	if w.canSend() {
		add("C sends", (*world).cSends)
	}
	if s != nil {
		fault(&w.cuts, "C gives up its stream, which still works upward", func(v *world) { v.cLeave(); v.c.Broken() })
	}
	if w.c.Attempt() == 0 {
		return
	}
	fault(&w.restarts, "C crashes and starts again", (*world).cRestarts)
	if w.c.cancel == 0 && w.c.end == nil {
		fault(&w.drains, "C drains", func(v *world) {
			v.must(v.c.Cancel(sluicev1.CancelKind_CANCEL_KIND_DRAIN, ""))
		})
	}
	if !w.c.settled() {
		fault(&w.fails, "C fails", (*world).cFails)
	}
	if w.c.known && (s == nil || w.c.Opening()) {
		fault(&w.expiries, "C's window is over", func(v *world) {
			v.apart = true
			v.cEndsOf(v.c.Expire())
		})
	}
}

func (w *world) stepsOfProducer(add func(string, func(*world)), fault func(*int, string, func(*world))) {
	for i, s := range w.streams {
		if s.gone {
			continue
		}
		if len(s.up) > 0 {
			add(fmt.Sprintf("P reads on stream %d", s.id.Attempt), func(v *world) { v.pReads(i) })
		}
		if s.broken || s.cGone {
			add(fmt.Sprintf("P notices the break of stream %d", s.id.Attempt), func(v *world) { v.pLeaves(i) })
		} else if w.ofP() == &w.streams[i] {
			fault(&w.cuts, "P gives up its stream, which still works downward", func(v *world) { v.pLeaves(i) })
		}
	}
	if w.p != nil {
		w.stepsOfSession(add, fault)
	}
	idle := w.p == nil || len(w.ring) == 0
	seen := w.c.Attempt() > 0 || w.cOver != Going
	if !w.stageDone && len(w.buffer) == 0 && idle && seen && (w.p != nil || w.cOver != Going) {
		add("P's stage ends", func(v *world) {
			v.stageDone = true
			if v.p != nil {
				v.pEnds()
			}
		})
	}
	if len(w.buffer) > 0 && !w.stageDone && (w.cOver != Going || w.p != nil && w.p.Ended() || w.marked&(1<<w.buffer[0]) != 0) {
		add(fmt.Sprintf("B processes %d", w.buffer[0]), func(v *world) {
			v.count(v.buffer[0])
			v.buffer = v.buffer[1:]
		})
	}
	if w.c.known {
		fault(&w.crashes, "P crashes and starts again", (*world).pCrashes)
	}
}

func (w *world) stepsOfSession(add func(string, func(*world)), fault func(*int, string, func(*world))) {
	room := w.p.Stream() != 0 && len(w.ofP().down) < w.dnCap
	oneOrAll := func(n int64, name string, do func(*world, int64)) {
		if n > 0 {
			add(fmt.Sprintf("P %s %d", name, n), func(v *world) { do(v, n) })
		}
		if n > 1 {
			add(fmt.Sprintf("P %s 1", name), func(v *world) { do(v, 1) })
		}
	}
	if !w.p.Ended() {
		oneOrAll(min(w.credit, int64(len(w.buffer))), "emits", (*world).pEmits)
	}
	if first, last, ok := w.p.Pending(); ok && room {
		oneOrAll(last-first+1, "writes", (*world).pWrites)
	}
	if _, ok := w.p.EndDue(); ok && room {
		add("P writes End", (*world).pWritesEnd)
	}
	if w.p.Detached() && w.cOver != Going {
		add("P's window is over", (*world).pForgets)
	}
	if w.p.Detached() && w.cOver == Going {
		fault(&w.late, "P's window is over, early", func(v *world) { v.apart = true; v.pForgets() })
	}
}

// budgetOf finds the same budget in another world.
func budgetOf(w *world, budget *int) func(*world) *int {
	for _, at := range []func(*world) *int{
		func(v *world) *int { return &v.cuts },
		func(v *world) *int { return &v.drains },
		func(v *world) *int { return &v.fails },
		func(v *world) *int { return &v.expiries },
		func(v *world) *int { return &v.late },
		func(v *world) *int { return &v.crashes },
		func(v *world) *int { return &v.restarts },
	} {
		if at(w) == budget {
			return at
		}
	}
	panic("no such budget")
}

// check looks at what holds in every world.
func (w *world) check() {
	w.must(lawOfConsumer(w.c))
	if w.p != nil {
		w.must(lawOfProducer(w.p))
		if int64(len(w.ring)) != w.p.Unacked() || w.p.Unacked() > w.unacked {
			w.fail("P retains %v for %d un-acked events", w.ring, w.p.Unacked())
		}
		if w.p.Allotted() > w.ahead {
			w.fail("%d are allotted and not sent, of %d", w.p.Allotted(), w.ahead)
		}
		if w.credit != w.p.Allotted() {
			w.fail("the dispatcher holds a credit of %d, and the session believes %d", w.credit, w.p.Allotted())
		}
		if !w.p.Failed() && w.last.Incarnation == w.c.last.Incarnation && w.cOver == Going {
			w.checkAcross()
		}
	}
	held := w.excused
	for _, ids := range [][]int{w.ring, w.buffer} {
		for _, id := range ids {
			held |= 1 << id
		}
	}
	for _, id := range w.queue {
		held |= 1 << id
	}
	for id := 1; id <= w.events; id++ {
		if held&(1<<id) == 0 && w.processed[id] == 0 {
			w.fail("event %d is lost", id)
		}
	}
}

// checkAcross: the law holds from one end to the other.
func (w *world) checkAcross() {
	if w.p.Acked() > w.c.Acked() || w.c.Received() > w.p.Sent() || w.p.Granted() > w.c.Granted() {
		w.fail("acked %d of %d, received %d of %d, granted %d of %d",
			w.p.Acked(), w.c.Acked(), w.c.Received(), w.p.Sent(), w.p.Granted(), w.c.Granted())
	}
	if w.p.Granted()-w.p.Acked() > w.max {
		w.fail("P holds %d asked for after %d acked: more than max_demand", w.p.Granted(), w.p.Acked())
	}
}
