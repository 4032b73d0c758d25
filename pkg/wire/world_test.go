package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicenet/sluice/internal/credit"
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
	c := *w.c
	v.c = &c
	if w.p != nil {
		p := *w.p
		rs := p.done.All()
		p.done = credit.Ranges{}
		for _, r := range rs {
			p.done.Add(r.First, r.Last)
		}
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

// key is the same for worlds that cannot be told apart.
func (w *world) key() string {
	var b strings.Builder
	c := w.c
	fmt.Fprint(&b, c.last, c.known, c.epoch, c.granted, c.received, c.acked, c.done, c.cancel, c.end.GetLast(), c.end != nil, c.end.GetReason(),
		c.on, w.queue, w.cOver, w.ring, w.credit, w.last, w.epoch, w.buffer, w.marked, w.stageDone, w.processed, w.excused, w.apart,
		w.cuts, w.drains, w.fails, w.expiries, w.late, w.crashes, w.restarts)
	if p := w.p; p != nil {
		fmt.Fprint(&b, *p)
	}
	for _, s := range w.streams {
		fmt.Fprint(&b, "#", s.id, s.broken, s.cGone, s.gone)
		for _, l := range s.up {
			b.WriteString(l.key)
		}
		b.WriteByte('|')
		for _, l := range s.down {
			b.WriteString(l.key)
		}
	}
	return b.String()
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
	return w.find(Triple{w.p.last.Incarnation, w.p.last.Session, w.p.Stream()})
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

// ---- the consumer and its owner

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
	c := *w.c
	f, halfClose := c.Next()
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

// ---- the producer and its owner

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
		step, err = w.p.Cancel(f.Cancel.GetKind(), f.Cancel.GetAcked(), DoneOf(f.Cancel.GetDone()))
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
		p, step, err := NewProducer(o, w.unacked)
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
	w.must(w.p.Emit(n))
	w.ring = append(w.ring, w.buffer[:n]...)
	w.buffer = w.buffer[n:]
	w.credit -= n
}

func (w *world) pWrites(n int64) {
	first, _, _ := w.p.Pending()
	ids := w.ring[first-w.p.Acked()-1:][:n]
	f := BatchFrame(Batch{First: first, Events: make([][]byte, n)})
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
