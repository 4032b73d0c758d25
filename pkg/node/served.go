package node

import (
	"fmt"
	"math"
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
	p       *published[T]
	who     subscriber
	terms   stage.Terms
	triple  wire.Triple // of the Open that began the session
	window  time.Duration
	up      stage.Upstream[T]
	codec   wire.Codec[T]
	scratch []T // of the sender

	mu      sync.Mutex
	core    *wire.Producer
	kept    []item[T] // positions acked+1 to sent
	queue   []item[T] // without a position yet
	runs    []int     // how queue was delivered: the lengths of the deliveries
	stream  *stream   // nil while detached
	opened  bool      // Opened was sent on stream
	ending  *stage.Ending
	over    bool
	expires *time.Timer
	since   time.Time // of the state: attached or detached
}

// item is an event that is kept, and how often it was tried before.
type item[T any] struct {
	event       T
	attempts    int
	redelivered bool
}

// todo is what follows for the stage.
type todo[T any] struct {
	ask    int64
	acked  int64
	cancel *stage.Cancel[T]
}

func newServed[T any](p *published[T], who subscriber, o *sluicev1.Open, opening wire.Opening, s *stream) (*served[T], error) {
	core, step, err := wire.NewProducer(opening, p.n.config.MaxUnacked)
	if err != nil {
		return nil, err
	}
	v := &served[T]{
		p: p, who: who, terms: termsOf(o), triple: opening.Triple, window: producerWindow(o), codec: p.port.Codec(),
		core: core, stream: s, since: time.Now(),
	}
	v.up, err = p.outlet.Attach(v.terms, v)
	if ended := new(stage.EndedError); err != nil {
		if !asEnded(err, &ended) {
			return nil, refusal(err)
		}
		// Who comes late to an outlet that has ended is told how it ended.
		v.up = nobody[T]{}
		v.Ended(ended.Ending)
		return v, nil
	}
	v.do(todo[T]{ask: step.Allot})
	return v, nil
}

// do tells the stage what follows. The lock is not held.
func (v *served[T]) do(t todo[T]) {
	switch {
	case t.cancel != nil:
		v.up.Cancel(*t.cancel)
	case t.ask > 0:
		_ = v.up.Ask(t.ask, t.acked)
	case t.acked > 0:
		_ = v.up.Ack(t.acked)
	}
}

// Opened implements stage.Receiver.
func (v *served[T]) Opened() {}

// Deliver implements stage.Receiver.
func (v *served[T]) Deliver(b stage.Batch[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	for _, e := range b.Events {
		v.queue = append(v.queue, item[T]{e, b.Attempts, b.Redelivered})
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
		t.cancel = &stage.Cancel[T]{Acked: step.Return[0].First - 1, Rest: v.returned(step.Return, base)}
	}
	if step.Release > 0 {
		n := int(min(step.Release, int64(len(v.kept))))
		clear(v.kept[:n])
		v.kept = v.kept[n:]
	}
	t.acked = v.core.Acked()
	return t
}

// returned are the events at positions that are given back. Those that the consumer
// may have been handling, one batch at most, count as tried.
func (v *served[T]) returned(ranges []credit.Range, base int64) []stage.Returned[T] {
	var rest []stage.Returned[T]
	tried := ranges[0].First - 1 + max(v.terms.MaxDemand-v.terms.MinDemand, 1)
	for _, r := range ranges {
		for at := r.First; at <= r.Last; at++ {
			it := v.kept[at-base-1]
			attempts := it.attempts
			if at <= tried {
				attempts++
			}
			rest = append(rest, stage.Returned[T]{Event: it.event, Attempts: attempts})
		}
	}
	return rest
}

// drop ends the session on the spot: what it holds, queued events included, goes
// back to the stage. The lock is held.
func (v *served[T]) drop(step wire.Step, why string) todo[T] {
	t := v.apply(step)
	if t.cancel == nil {
		t.cancel = &stage.Cancel[T]{Acked: v.core.Acked()}
	}
	for _, it := range v.queue {
		t.cancel.Rest = append(t.cancel.Rest, stage.Returned[T]{Event: it.event, Attempts: it.attempts})
	}
	t.cancel.Reason = why
	v.queue, v.runs = nil, nil
	return t
}

// frame implements session.
func (v *served[T]) frame(s *stream, f *sluicev1.SubscriberFrame) error {
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
	var err error
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		step, err = v.core.Ask(f.Ask.GetN(), f.Ask.GetAcked(), wire.DoneOf(f.Ask.GetDone()))
	case *sluicev1.SubscriberFrame_Ack:
		step, err = v.core.Ack(f.Ack.GetAcked(), wire.DoneOf(f.Ack.GetDone()))
	case *sluicev1.SubscriberFrame_Cancel:
		return v.cancel(f.Cancel)
	}
	if err != nil {
		return todo[T]{}, err
	}
	return v.apply(step), nil
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
		t.cancel = &stage.Cancel[T]{Drain: true, Acked: t.acked, Reason: c.GetReason()}
		return t, nil
	}
	failed := v.core.Failed()
	step, err := v.core.Cancel(c.GetKind(), c.GetAcked(), done)
	if err != nil || failed {
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
	v.kept, v.queue, v.runs = nil, nil, nil
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
		if v.expires == nil {
			v.expires = time.AfterFunc(v.window, v.windowOver)
		} else {
			v.expires.Reset(v.window)
		}
	}
	v.mu.Unlock()
	v.do(again)
}

func (v *served[T]) windowOver() {
	v.mu.Lock()
	detached := v.stream == nil && !v.over
	v.mu.Unlock()
	if detached {
		v.p.n.log.Warn("subscriber lost", "outlet", v.p.port.Name(), "stage", v.who.stage, "of", v.who.node)
		v.expire("its connection did not come back in time")
		v.p.over(v)
	}
}

// resume lets another stream take the session over.
func (v *served[T]) resume(o wire.Opening, s *stream) error {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return &wire.Error{Rule: wire.RuleUnknownSession, What: "the session has just ended"}
	}
	step, err := v.core.Resume(o)
	if err != nil {
		v.mu.Unlock()
		return err
	}
	if v.stream != nil {
		v.stream.close(errReplaced)
	}
	v.stream, v.opened, v.since = s, false, time.Now()
	if v.expires != nil {
		v.expires.Stop()
	}
	t := v.apply(step)
	v.mu.Unlock()
	v.do(t)
	s.poke()
	return nil
}

// violated implements session.
func (v *served[T]) violated(s *stream, err error) {
	v.mu.Lock()
	if !v.current(s) {
		v.mu.Unlock()
		s.close(err)
		return
	}
	v.mu.Unlock()
	v.end(err, err.Error())
	v.p.over(v)
}

// expire gives back what the session holds, and ends it.
func (v *served[T]) expire(why string) { v.end(errReplaced, why) }

func (v *served[T]) end(cause error, why string) {
	v.mu.Lock()
	if v.over {
		v.mu.Unlock()
		return
	}
	t := v.drop(v.core.Expire(), why)
	v.finish(cause)
	v.mu.Unlock()
	v.do(t)
}

// next implements session.
func (v *served[T]) next(s *stream) *sluicev1.ProducerFrame {
	for {
		v.mu.Lock()
		if !v.current(s) {
			v.mu.Unlock()
			s.close(errReplaced)
			return nil
		}
		if f := v.ready(); f != nil || len(v.queue) == 0 {
			v.mu.Unlock()
			return f
		}
		run := v.runs[0]
		v.scratch = v.scratch[:0]
		for _, it := range v.queue[:run] {
			v.scratch = append(v.scratch, it.event)
		}
		v.mu.Unlock()
		// Encoding is user code, and takes its time: it happens without the lock.
		room := min(wire.Room(s.limit), frameRoom)
		data, n, err := cut(v.codec, v.scratch, room, wire.Room(s.limit))
		clear(v.scratch)
		if f := v.emit(s, data, n, err); f != nil {
			return f
		}
	}
}

// ready returns the next frame that needs no new events: Opened, what is to be sent
// again, End. The lock is held.
func (v *served[T]) ready() *sluicev1.ProducerFrame {
	if !v.opened {
		v.opened = true
		return wire.OpenedFrame(v.p.n.incarnation, v.core, wire.Limits{
			UnackedEvents: v.p.n.config.MaxUnacked, UnackedBytes: math.MaxInt64, FrameBytes: maxFrame,
		})
	}
	if first, last, ok := v.core.Pending(); ok {
		return v.again(first, last)
	}
	if v.ending != nil && len(v.queue) == 0 {
		v.core.End(endReason(v.ending.Reason), message(v.ending.Err))
	}
	if end, ok := v.core.EndDue(); ok {
		v.core.WroteEnd()
		return wire.EndFrame(end)
	}
	return nil
}

// again returns a frame with events that were sent before on a stream that broke.
// Events that were tried come alone.
func (v *served[T]) again(first, last int64) *sluicev1.ProducerFrame {
	at := first - v.core.Acked() - 1
	items := v.kept[at : at+last-first+1]
	n := 1
	for n < len(items) && items[0].attempts == 0 && items[n].attempts == 0 && items[n].redelivered == items[0].redelivered {
		n++
	}
	v.scratch = v.scratch[:0]
	for _, it := range items[:n] {
		v.scratch = append(v.scratch, it.event)
	}
	room := wire.Room(v.stream.limit)
	data, n, err := cut(v.codec, v.scratch, min(room, frameRoom), room)
	clear(v.scratch)
	if err != nil {
		// It could be sent before: the peer takes less now, or the codec has changed
		// its mind. There is no going on behind it.
		go v.violated(v.stream, err)
		return nil
	}
	v.core.Wrote(first + int64(n) - 1)
	return wire.BatchFrame(wire.Batch{First: first, Events: data, Attempts: attempts(items[:n]), Backlog: int64(len(v.queue))})
}

// emit gives positions to the first n queued events, which are encoded in data, and
// returns their frame. With an error the first event cannot be sent.
func (v *served[T]) emit(s *stream, data [][]byte, n int, err error) *sluicev1.ProducerFrame {
	v.mu.Lock()
	if !v.current(s) || len(v.runs) == 0 {
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
	defer v.mu.Unlock()
	if err := v.core.Emit(int64(n)); err != nil {
		// The session has ended, and drop has given back what was queued: not reached.
		go v.violated(s, err)
		return nil
	}
	batch := wire.Batch{
		First: v.core.Sent() - int64(n) + 1, Events: data, Attempts: attempts(v.queue[:n]),
		More: n < v.runs[0], Backlog: int64(len(v.queue) - n),
	}
	v.kept = append(v.kept, v.queue[:n]...)
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
		out[i] = int32(it.attempts)
	}
	return out
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
	case v.core.Allotted() == 0:
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

func (nobody[T]) Ask(_, _ int64) error    { return nil }
func (nobody[T]) Ack(int64) error         { return nil }
func (nobody[T]) Cancel(stage.Cancel[T])  {}
func (nobody[T]) Revoke() int64           { return 0 }
func (nobody[T]) Discard(_ int, _ string) {}

func message(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}
