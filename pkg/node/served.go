package node

import (
	"sync"
	"time"

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
	guest  string // whom it counts for

	mu      sync.Mutex
	core    *wire.Producer
	kept    []chunk[T] // positions acked+1 to sent, as they were put into frames
	bytes   int64      // encoded, of what is kept
	more    bool       // the last frame has said that its delivery goes on
	queue   []chunk[T] // without a position yet: what is left of each delivery
	spare   spare[T]
	waiting int64     // events in queue
	stream  *stream   // nil while detached
	opened  bool      // Opened was sent on stream
	leaving bool      // Draining was
	settled time.Time // when End was sent, and nothing was un-acknowledged any more
	ending  *stage.Ending
	over    bool // nothing more is sent or taken from the consumer
	handed  bool // what was held is with the stage again: it delivers no more
	expires *time.Timer
	since   time.Time // of the state: attached or detached
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
	core, step, err := wire.NewProducer(opening, p.n.config.MaxUnacked, p.ahead())
	if err != nil {
		return nil, todo[T]{}, err
	}
	v := &served[T]{
		p: p, who: who, terms: termsOf(o), triple: opening.Triple, window: p.n.window(o), codec: p.port.Codec(),
		guest: s.guest, core: core, stream: s, since: time.Now(),
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
	if v.handed || len(b.Events) == 0 {
		return
	}
	v.queue = append(v.queue, chunk[T]{events: append(v.spare.get(len(b.Events)), b.Events...), attempts: int32(b.Attempts), redelivered: b.Redelivered})
	v.waiting += int64(len(b.Events))
}

// Wake implements stage.Sender.
func (v *served[T]) Wake() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.poke()
}

// Send implements stage.Sender: the goroutine that has delivered sends it as well, where
// that is sure not to wait.
func (v *served[T]) Send() {
	v.mu.Lock()
	s := v.stream
	v.mu.Unlock()
	if s == nil {
		return
	}
	if err := s.lend(); err != nil {
		v.broken(s)
	}
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

// look pokes the stream where there may be something to send. The lock is held.
func (v *served[T]) look() {
	_, _, pending := v.core.Pending()
	if pending || len(v.queue) > 0 || v.ending != nil || v.core.Ended() {
		v.poke()
	}
}

// current reports whether s is the session's stream: what comes from another one is
// void. The lock is held.
func (v *served[T]) current(s *stream) bool { return v.stream == s && !v.over }

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
	t, err := v.take(s, f)
	if err == nil {
		v.do(t)
	}
	return err
}

func (v *served[T]) take(s *stream, f *sluicev1.SubscriberFrame) (todo[T], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.current(s) {
		return todo[T]{}, nil
	}
	defer v.look()
	var step wire.Step
	var done []stage.Range
	var err error
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		done = wire.DoneOf(f.Ask.GetDone())
		if err = v.demands(f.Ask); err == nil {
			step, err = v.core.Ask(f.Ask.GetN(), f.Ask.GetAcked(), done)
		}
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

// demands bounds what an Ask may bring the demand to. There is no number of events that
// adds up to demand without a bound: who wants that says it.
func (v *served[T]) demands(a *sluicev1.Ask) error {
	granted := v.core.Granted()
	if granted == credit.Unbounded || a.GetN() == credit.Unbounded {
		return nil
	}
	granted = min(credit.Add(granted, a.GetN()), credit.Unbounded-1)
	return v.p.n.checkDemand(granted, max(a.GetAcked(), v.core.Acked()))
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
	step, err := v.core.Cancel(c.GetKind(), c.GetAcked(), done, wire.DoneOf(c.GetTried())...)
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
