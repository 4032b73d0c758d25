package node

import (
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// served is the producer's end of one subscription: a receiver to the stage whose
// events it gets, and a session to the consumer that it sends them to.
//
// What the stage delivers waits in queue until it is encoded; only then it gets its
// positions, so that an event that cannot be sent takes none. From then on it is
// kept until it is acknowledged.
//
// The lock is a leaf, since the stage delivers under its own: nothing of the stage is
// called while it is held. What follows for the stage is collected in a todo and done
// after.
type served[T any] struct {
	p      *published[T]
	who    subscriber
	terms  stage.Terms
	triple wire.Triple // of the Open that began the session
	window time.Duration
	up     stage.Upstream[T]
	codec  wire.Codec[T]

	mu      sync.Mutex
	core    *wire.Producer
	kept    []item[T] // positions acked+1 to sent
	bytes   int64     // encoded, of what is kept
	queue   []item[T] // without a position yet
	runs    []int     // how queue was delivered: the lengths of the deliveries
	stream  *stream   // nil while detached
	opened  bool      // Opened was sent on stream
	ending  *stage.Ending
	over    bool // nothing more is sent or taken from the consumer
	handed  bool // what was held is with the stage again: it delivers no more
	expires *time.Timer
	since   time.Time // of the state: attached or detached
}

// item is an event that is kept, and how often it was tried before.
type item[T any] struct {
	event       T
	bytes       int32 // encoded, once it is
	attempts    int32
	redelivered bool
}

// todo is what follows for the stage.
type todo[T any] struct {
	ask    int64
	acked  int64
	done   []stage.Range
	cancel *stage.Cancel[T]
}

// newServed begins a session. What is asked for is in the todo.
func newServed[T any](p *published[T], who subscriber, o *sluicev1.Open, opening wire.Opening, s *stream) (*served[T], todo[T], error) {
	core, step, err := wire.NewProducer(opening, p.n.config.MaxUnacked)
	if err != nil {
		return nil, todo[T]{}, err
	}
	v := &served[T]{
		p: p, who: who, terms: termsOf(o), triple: opening.Triple, window: producerWindow(o, p.n.tuning.slack), codec: guarded[T]{p.port.Codec()},
		core: core, stream: s, since: time.Now(),
	}
	v.up, err = p.outlet.Attach(v.terms, v)
	if ended := new(stage.EndedError); err != nil {
		if !asEnded(err, &ended) {
			return nil, todo[T]{}, refusal(err)
		}
		// Who comes late to an outlet that has ended is told how it ended.
		v.up = nobody[T]{}
		v.Ended(ended.Ending)
	}
	return v, todo[T]{ask: step.Allot}, nil
}

// do tells the stage what follows. The lock is not held.
func (v *served[T]) do(t todo[T]) {
	switch {
	case t.cancel != nil:
		v.up.Cancel(*t.cancel)
	case t.ask > 0:
		_ = v.up.Ask(t.ask, t.acked, t.done...)
	case t.acked > 0 || len(t.done) > 0:
		_ = v.up.Ack(t.acked, t.done...)
	}
}

// Opened implements stage.Receiver.
func (v *served[T]) Opened() {}

// Deliver implements stage.Receiver.
func (v *served[T]) Deliver(b stage.Batch[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.handed {
		return
	}
	for _, e := range b.Events {
		v.queue = append(v.queue, item[T]{event: e, attempts: int32(b.Attempts), redelivered: b.Redelivered})
	}
	v.runs = append(v.runs, len(b.Events))
	v.poke()
}

// Ended implements stage.Receiver. What is queued is sent first.
func (v *served[T]) Ended(e stage.Ending) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ending == nil {
		v.ending = &e
	}
	v.poke()
}

func (v *served[T]) poke() {
	if v.stream != nil {
		v.stream.poke()
	}
}

// current reports whether s is the session's stream: what comes from another one is
// void. The lock is held.
func (v *served[T]) current(s *stream) bool { return v.stream == s && !v.over }

// apply obeys a step. The lock is held.
func (v *served[T]) apply(step wire.Step) todo[T] {
	t := todo[T]{ask: step.Allot}
	base := v.core.Acked() - step.Release // the position before kept[0]
	if len(step.Return) > 0 {
		t.cancel = &stage.Cancel[T]{
			Acked: step.Return[0].First - 1, Done: between(step.Return, base+step.Release), Rest: v.returned(step.Return, base),
		}
	}
	if step.Release > 0 {
		n := int(min(step.Release, int64(len(v.kept))))
		for _, it := range v.kept[:n] {
			v.bytes -= int64(it.bytes)
		}
		clear(v.kept[:n])
		v.kept = v.kept[n:]
	}
	t.acked = v.core.Acked()
	return t
}

// returned are the events at positions that are given back. Those that the consumer
// may have been handling count as tried: one batch at most, or all of them where it
// finishes events out of order.
func (v *served[T]) returned(ranges []credit.Range, base int64) []stage.Returned[T] {
	var rest []stage.Returned[T]
	tried := ranges[0].First - 1 + max(v.terms.MaxDemand-v.terms.MinDemand, 1)
	if len(ranges) > 1 {
		tried = ranges[len(ranges)-1].Last
	}
	for _, r := range ranges {
		for at := r.First; at <= r.Last; at++ {
			it := v.kept[at-base-1]
			attempts := int(it.attempts)
			if at <= tried {
				attempts++
			}
			rest = append(rest, stage.Returned[T]{Event: it.event, Attempts: attempts})
		}
	}
	return rest
}

// drop gives what the session holds, queued events included, back to the stage,
// which has been told to deliver no more: see quiet. The lock is held.
func (v *served[T]) drop(step wire.Step, why string) todo[T] {
	t := v.apply(step)
	if t.cancel == nil {
		t.cancel = &stage.Cancel[T]{Acked: v.core.Acked()}
	}
	for _, it := range v.queue {
		t.cancel.Rest = append(t.cancel.Rest, stage.Returned[T]{Event: it.event, Attempts: int(it.attempts)})
	}
	t.cancel.Reason = why
	v.queue, v.runs, v.handed = nil, nil, true
	return t
}

// quiet lets the stage deliver no more, before what it has delivered is given back: a
// delivery on its way would be lost otherwise. The lock is not held.
func (v *served[T]) quiet(why string) {
	v.mu.Lock()
	acked := v.core.Acked()
	v.mu.Unlock()
	v.up.Cancel(stage.Cancel[T]{Drain: true, Acked: acked, Reason: why})
}

// frame implements session.
func (v *served[T]) frame(s *stream, f *sluicev1.SubscriberFrame) error {
	if c := f.GetCancel(); c.GetKind() == sluicev1.CancelKind_CANCEL_KIND_FAILED {
		v.mu.Lock()
		void := !v.current(s) || v.core.Failed()
		v.mu.Unlock()
		if void {
			return nil
		}
		v.quiet(c.GetReason())
	}
	v.mu.Lock()
	if !v.current(s) {
		v.mu.Unlock()
		return nil
	}
	t, err := v.take(f)
	v.poke()
	v.mu.Unlock()
	if err == nil {
		v.do(t)
	}
	return err
}

func (v *served[T]) take(f *sluicev1.SubscriberFrame) (todo[T], error) {
	var step wire.Step
	var done []stage.Range
	var err error
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		done = wire.DoneOf(f.Ask.GetDone())
		step, err = v.core.Ask(f.Ask.GetN(), f.Ask.GetAcked(), done)
	case *sluicev1.SubscriberFrame_Ack:
		done = wire.DoneOf(f.Ack.GetDone())
		step, err = v.core.Ack(f.Ack.GetAcked(), done)
	case *sluicev1.SubscriberFrame_Cancel:
		return v.cancel(f.Cancel)
	}
	if err != nil {
		return todo[T]{}, err
	}
	t := v.apply(step)
	t.done = done
	return t, nil
}

// cancel applies a Cancel. A drain goes to the stage first: what that has delivered
// by then is still sent, and its answer, Ended, ends the session.
func (v *served[T]) cancel(c *sluicev1.Cancel) (todo[T], error) {
	done := wire.DoneOf(c.GetDone())
	if c.GetKind() == sluicev1.CancelKind_CANCEL_KIND_DRAIN {
		step, err := v.core.Ack(c.GetAcked(), done)
		if err != nil {
			return todo[T]{}, err
		}
		t := v.apply(step)
		t.cancel = &stage.Cancel[T]{Drain: true, Acked: t.acked, Done: done, Reason: c.GetReason()}
		return t, nil
	}
	step, err := v.core.Cancel(c.GetKind(), c.GetAcked(), done)
	if err != nil {
		return todo[T]{}, err
	}
	return v.drop(step, c.GetReason()), nil
}

// halfClosed implements session.
func (v *served[T]) halfClosed(s *stream) error {
	v.mu.Lock()
	if !v.current(s) {
		v.mu.Unlock()
		return nil
	}
	finished, err := v.core.HalfClose()
	if finished {
		v.finish(nil)
	}
	v.mu.Unlock()
	if finished {
		v.p.over(v)
	}
	return err
}

// finish ends the session and closes its stream. The lock is held.
func (v *served[T]) finish(cause error) {
	v.over = true
	if v.expires != nil {
		v.expires.Stop()
	}
	if v.stream != nil {
		v.stream.close(cause)
		v.stream = nil
	}
	v.kept, v.queue, v.runs, v.handed = nil, nil, nil, true
}

// broken implements session: the session waits for another stream, inside its window.
func (v *served[T]) broken(s *stream) {
	v.mu.Lock()
	if !v.current(s) {
		v.mu.Unlock()
		s.close(nil)
		return
	}
	v.stream, v.since = nil, time.Now()
	v.mu.Unlock()
	s.close(nil)
	// The stage is asked without the lock. Meanwhile another stream may have taken
	// over; what is revoked is then asked for again, and nothing is lost.
	revoked := v.up.Revoke()
	v.mu.Lock()
	again := todo[T]{}
	switch {
	case v.over:
	case v.stream != nil:
		again = todo[T]{ask: revoked, acked: v.core.Acked()}
	default:
		v.core.Detach(revoked)
		v.arm()
	}
	v.mu.Unlock()
	v.do(again)
}

// arm sets the end of the window, which is near where the node is about to leave. The
// lock is held.
func (v *served[T]) arm() {
	left := v.patience() - time.Since(v.since)
	if v.expires == nil {
		v.expires = time.AfterFunc(left, v.windowOver)
	} else {
		v.expires.Reset(left)
	}
}

// patience is how long a broken connection may take to come back.
func (v *served[T]) patience() time.Duration {
	if v.p.n.draining.Load() {
		return min(v.window, drainGrace)
	}
	return v.window
}

// hurry shortens the window of a session without a stream.
func (v *served[T]) hurry() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stream == nil && !v.over && v.expires != nil {
		v.arm()
	}
}

func (v *served[T]) windowOver() {
	ended := v.end(errReplaced, "its connection did not come back in time", func() bool {
		return v.stream == nil && time.Since(v.since) >= v.patience()
	})
	if ended {
		v.p.n.log.Warn("subscriber lost", "outlet", v.p.port.Name(), "stage", v.who.stage, "of", v.who.node)
		v.p.over(v)
	}
}

// resume lets another stream take the session over, and returns what follows for the
// stage.
func (v *served[T]) resume(o wire.Opening, s *stream) (todo[T], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return todo[T]{}, &wire.Error{Rule: wire.RuleUnknownSession, What: "the session has just ended"}
	}
	step, err := v.core.Resume(o)
	if err != nil {
		return todo[T]{}, err
	}
	if v.stream != nil {
		v.stream.close(errReplaced)
	}
	v.stream, v.opened, v.since = s, false, time.Now()
	if v.expires != nil {
		v.expires.Stop()
	}
	s.poke()
	return v.apply(step), nil
}

// violated implements session.
func (v *served[T]) violated(s *stream, err error) {
	if v.end(err, err.Error(), func() bool { return v.stream == s }) {
		v.p.over(v)
	}
	s.close(err)
}

// expire gives back what the session holds, and ends it.
func (v *served[T]) expire(cause error, why string) {
	v.end(cause, why, func() bool { return true })
}

// end ends the session, if it is not over and when says so under the lock, and
// reports whether it did. What it holds goes back to the stage.
func (v *served[T]) end(cause error, why string, when func() bool) bool {
	v.mu.Lock()
	if v.over || !when() {
		v.mu.Unlock()
		return false
	}
	v.over = true
	v.mu.Unlock()
	why = clip(why)
	v.quiet(why)
	v.mu.Lock()
	t := v.drop(v.core.Expire(), why)
	v.finish(cause)
	v.mu.Unlock()
	v.do(t)
	return true
}

// sender implements session.
func (v *served[T]) sender(s *stream) func() *sluicev1.ProducerFrame {
	return (&sender[T]{v: v, s: s}).next
}

// sender makes the frames of one stream. Encoding is user code, and takes its time: it
// happens without the lock, in room that belongs to the stream.
type sender[T any] struct {
	v      *served[T]
	s      *stream
	events []T
}

func (x *sender[T]) next() *sluicev1.ProducerFrame {
	v := x.v
	for {
		again, f := x.pick()
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
		x.s.close(errReplaced)
		return 0, nil
	}
	if !v.opened {
		v.opened = true
		return 0, wire.OpenedFrame(v.p.n.incarnation, v.core, wire.Limits{
			UnackedEvents: v.p.n.config.MaxUnacked, UnackedBytes: v.p.n.config.MaxUnackedBytes, FrameBytes: maxFrame,
		})
	}
	if first, last, ok := v.core.Pending(); ok {
		x.take(alike(v.kept[first-v.core.Acked()-1:][:last-first+1]))
		return first, nil
	}
	if len(v.queue) > 0 {
		if !v.full() {
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
		v.shift(1)
		v.mu.Unlock()
		v.p.n.log.Warn("event discarded", "outlet", v.p.port.Name(), "why", err)
		v.up.Discard(1, discardReason(err))
		return nil
	}
	if err := v.core.Emit(int64(n)); err != nil {
		v.mu.Unlock()
		// The session has ended, and drop has given back what was queued: not reached.
		v.violated(x.s, err)
		return nil
	}
	defer v.mu.Unlock()
	at := len(v.kept)
	v.kept = append(v.kept, v.queue[:n]...)
	for i, d := range data {
		v.kept[at+i].bytes = int32(len(d))
		v.bytes += int64(len(d))
	}
	batch := wire.Batch{
		First: v.core.Sent() - int64(n) + 1, Events: data, Attempts: attempts(v.kept[at:]),
		// The consumer handles a delivery when it is whole, and acknowledges after that.
		More: n < v.runs[0] && !v.full(), Backlog: int64(len(v.queue) - n),
	}
	v.shift(n)
	v.core.Wrote(v.core.Sent())
	return wire.BatchFrame(batch)
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

func (v *served[T]) detached() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stream == nil
}

// row is what an operator sees.
func (v *served[T]) row() *sluicev1.SubscriptionInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := "flowing"
	switch {
	case v.stream == nil:
		state = "reconnecting"
	case v.ending != nil || v.core.Ended():
		state = "draining"
	case v.core.Credit() == 0:
		state = "no-demand"
	case v.core.Allotted() == 0, v.full():
		state = "paused"
	case len(v.queue) == 0:
		state = "no-events"
	}
	r := &sluicev1.SubscriptionInfo{
		Outlet: v.p.port.Name(), ProducerNode: v.p.n.config.Name,
		ConsumerNode: v.who.node, ConsumerStage: v.who.stage,
		Side:  sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER,
		State: state, MaxDemand: v.terms.MaxDemand, MinDemand: v.terms.MinDemand,
		Granted: v.core.Granted(), Sent: v.core.Sent(), Acked: v.core.Acked(),
		Age: durationpb.New(time.Since(v.since)), Incarnation: v.triple.Incarnation, Session: v.triple.Session,
	}
	if v.who.partition >= 0 {
		p := int32(v.who.partition)
		r.Partition = &p
	}
	return r
}

// nobody is the upstream of a session whose outlet has ended.
type nobody[T any] struct{}

func (nobody[T]) Ask(_, _ int64, _ ...stage.Range) error { return nil }
func (nobody[T]) Ack(int64, ...stage.Range) error        { return nil }
func (nobody[T]) Cancel(stage.Cancel[T])                 {}
func (nobody[T]) Revoke() int64                          { return 0 }
func (nobody[T]) Discard(_ int, _ string)                {}

func message(err error) string {
	if err == nil {
		return ""
	}
	return clip(err.Error())
}

// between are the positions that ranges leave out, from the first of them to last.
func between(ranges []credit.Range, last int64) (gaps []stage.Range) {
	for i, r := range ranges {
		next := last + 1
		if i+1 < len(ranges) {
			next = ranges[i+1].First
		}
		if r.Last+1 < next {
			gaps = append(gaps, stage.Range{First: r.Last + 1, Last: next - 1})
		}
	}
	return gaps
}
