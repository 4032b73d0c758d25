package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// inflow is the consumer's end of one subscription: an upstream to the stage that
// consumes, and a session to the producer. It finds who offers the outlet, opens a
// stream, and opens another one when that breaks, inside the resume window.
//
// run owns the streams: it reads, and starts one goroutine for each stream that
// writes. The lock guards the session; no receiver is called while it is held.
type inflow[T any] struct {
	n       *Node
	port    wire.Port[T]
	codec   wire.Codec[T]
	terms   stage.Terms
	to      stage.Receiver[T]
	about   *sluicev1.Open
	session uint64
	wake    chan struct{} // there may be something to write, or a reason to look again
	before  *inflow[T]    // of the same stage to the same outlet, that comes to its end
	done    chan struct{} // closed when it is over

	mu       sync.Mutex
	core     *wire.Consumer
	at       publisher // where the session is, or is sought
	state    string
	why      error // what it waits for
	since    time.Time
	given    bool      // Ended was called: the stage has heard the last of it
	unwanted time.Time // when the stage cancelled, or zero
}

func newInflow[T any](n *Node, port wire.Port[T], terms stage.Terms, to stage.Receiver[T], about *sluicev1.Open, session uint64) *inflow[T] {
	return &inflow[T]{
		n: n, port: port, codec: guarded[T]{port.Codec()}, terms: terms, to: to, about: about, session: session,
		core: wire.NewConsumer(n.incarnation, session, 0),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		state: "waiting", since: time.Now(), why: unoffered(port.Name()),
	}
}

func unoffered(outlet string) error {
	return &wire.Error{Rule: wire.RuleUnknownOutlet, Outlet: outlet, What: "no node offers it"}
}

// Ask implements stage.Upstream.
func (i *inflow[T]) Ask(n, acked int64, done ...stage.Range) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	// After the end it asks for nothing, and still acknowledges.
	i.processed(acked, done, i.given)
	i.poke()
	return i.core.Ask(n)
}

// Ack implements stage.Upstream.
func (i *inflow[T]) Ack(acked int64, done ...stage.Range) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processed(acked, done, true)
	i.poke()
	return nil
}

// processed books what is processed. What is booked already is no news: asks come
// from several goroutines, and may overtake each other.
func (i *inflow[T]) processed(acked int64, done []stage.Range, idle bool) {
	if acked >= i.core.Acked() {
		_ = i.core.Processed(acked, done, idle)
	}
}

// Cancel implements stage.Upstream.
func (i *inflow[T]) Cancel(c stage.Cancel[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processed(c.Acked, c.Done, true)
	kind := sluicev1.CancelKind_CANCEL_KIND_FAILED
	if c.Drain {
		kind = sluicev1.CancelKind_CANCEL_KIND_DRAIN
	}
	_ = i.core.Cancel(kind, clip(c.Reason))
	if i.unwanted.IsZero() {
		i.unwanted = time.Now()
	}
	i.poke()
}

// cancelled is when the stage cancelled, or zero.
func (i *inflow[T]) cancelled() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.unwanted
}

// leaving reports whether the stage has no more use for the subscription.
func (i *inflow[T]) leaving() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.given || !i.unwanted.IsZero()
}

// Revoke implements stage.Upstream.
func (i *inflow[T]) Revoke() int64 { return 0 }

// Discard implements stage.Upstream.
func (i *inflow[T]) Discard(int, string) {}

// Waiting implements stage.Waiter.
func (i *inflow[T]) Waiting() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

func (i *inflow[T]) poke() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// set says what an operator sees.
func (i *inflow[T]) set(state string, why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != state {
		i.state, i.since = state, time.Now()
	}
	i.why = why
}

// give tells the stage how the subscription has ended, once.
func (i *inflow[T]) give(e stage.Ending) {
	i.mu.Lock()
	given := i.given
	i.given = true
	i.mu.Unlock()
	if !given {
		i.to.Ended(e)
	}
}

// run carries the subscription to its end.
func (i *inflow[T]) run() {
	defer close(i.done)
	defer i.n.forget(i)
	ctx, cancel := context.WithCancel(i.n.ctx)
	defer cancel()
	if i.before != nil {
		// Were the new session opened first, the producer would give back what the old
		// one has just processed.
		i.set("waiting", fmt.Errorf("an earlier subscription of the stage to %q comes to its end", i.port.Name()))
		pause(ctx, farewell, i.before.done)
		i.before = nil
	}
	if i.first(ctx) {
		i.last(ctx)
	}
}

// first waits for a publisher and opens the session. It reports false when there is
// none to go on with.
func (i *inflow[T]) first(ctx context.Context) bool {
	retry := newBackoff()
	unsure := false // whether a producer holds the session
	for try := 0; ; try++ {
		if !i.cancelled().IsZero() {
			i.give(stage.Ending{Reason: stage.Cancelled})
			if unsure {
				i.mu.Lock()
				_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "withdrawn")
				i.mu.Unlock()
			}
			return unsure // a producer that holds the session is told
		}
		wait := time.Hour
		found, changed := i.n.cluster.find(i.port.Name(), i.terms.Node+"/"+i.terms.Stage)
		if len(found) == 0 {
			i.set("waiting", unoffered(i.port.Name()))
		} else {
			i.mu.Lock()
			i.at = found[try%len(found)]
			i.mu.Unlock()
			before := i.attempts()
			opened, outcome, err := i.stream(ctx, time.Time{})
			if opened && outcome == wire.Going {
				return true
			}
			if outcome != wire.Going && !errors.Is(err, wire.RuleUnknownOutlet) {
				i.conclude(outcome, err)
				return false
			}
			// Gossip was ahead of the node, or behind it; the node is the one to believe.
			_, said := wire.FromStatus(err)
			unsure = !said && i.attempts() > before
			i.set("waiting", i.named(err))
			wait = retry.NextBackOff()
		}
		if !pause(ctx, wait, changed, i.wake) {
			i.give(stage.Ending{Reason: stage.Cancelled, Err: errStopped})
			return false
		}
	}
}

// last keeps the session going until its end. It exists at one node: nobody else can
// go on with it.
func (i *inflow[T]) last(ctx context.Context) {
	retry := newBackoff()
	for {
		broke := time.Now()
		for opened := false; !opened; {
			i.set("reconnecting", fmt.Errorf("the connection to node %q broke", i.where().node))
			i.release(broke)
			wait := min(retry.NextBackOff(), time.Until(i.deadline(broke)))
			if !pause(ctx, wait) || !time.Now().Before(i.deadline(broke)) {
				i.expire()
				return
			}
			var outcome wire.Outcome
			var err error
			opened, outcome, err = i.stream(ctx, i.deadline(broke))
			if outcome != wire.Going {
				i.conclude(outcome, err)
				return
			}
		}
		retry.Reset()
	}
}

// release lets a stage go that has cancelled and waits for what was sent to it, when
// the connection does not come back. The session goes on without it, so that the
// producer hears what was processed, and gives back the rest.
func (i *inflow[T]) release(broke time.Time) {
	left := i.cancelled()
	if left.IsZero() || time.Since(later(left, broke)) < farewell {
		return
	}
	i.give(stage.Ending{Reason: stage.Cancelled})
	i.mu.Lock()
	defer i.mu.Unlock()
	_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "the connection broke while it was drained")
}

// deadline is when a session gives up that has no stream since broke: when its window
// is over, or sooner where its node stops. What the producer was not told by then, its
// own window says.
func (i *inflow[T]) deadline(broke time.Time) time.Time {
	d := broke.Add(i.terms.ResumeWindow)
	stops, left := i.n.leftAt(), i.cancelled()
	if stops.IsZero() {
		return d
	}
	if !left.IsZero() && left.Before(stops) {
		stops = left
	}
	if soon := later(stops, broke).Add(farewell); soon.Before(d) {
		return soon
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (i *inflow[T]) where() publisher {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.at
}

// attempts is how many Opens were sent.
func (i *inflow[T]) attempts() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.core.Attempt()
}

// stream opens one stream and carries the session on it until it ends. opened says
// that the producer has answered with Opened, which it must until limit, if that is
// not zero.
func (i *inflow[T]) stream(ctx context.Context, limit time.Time) (opened bool, outcome wire.Outcome, err error) {
	at := i.where()
	if limit.IsZero() {
		i.set("opening", fmt.Errorf("node %q has not answered yet", at.node))
	}
	conn, err := i.n.peers.dial(at.address)
	if err != nil {
		return false, wire.Going, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// An answer that does not come is a stream that does not work.
	patience := openTimeout
	if !limit.IsZero() {
		patience = min(patience, time.Until(limit))
	}
	unanswered := time.AfterFunc(patience, cancel)
	defer unanswered.Stop()
	call, err := sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
	if err != nil {
		return false, wire.Going, err
	}
	i.mu.Lock()
	open := wire.OpenFrame(i.about, i.core.Open())
	i.mu.Unlock()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() { i.write(ctx, call, open, cancel) })
	r := reader[T]{i: i}
	for {
		f, err := call.Recv()
		if err != nil {
			r.flush()
			return opened, i.closed(err), err
		}
		if f.GetOpened() != nil {
			unanswered.Stop()
		}
		if err = wire.CheckProducerFrame(f); err == nil {
			err = r.frame(f)
		}
		if err != nil {
			return opened, wire.Refused, i.breach(err, call, cancel)
		}
		opened = opened || f.GetOpened() != nil
	}
}

// closed books that the stream has ended with err.
func (i *inflow[T]) closed(err error) wire.Outcome {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == io.EOF { //nolint:errorlint // as Recv returns it
		return i.core.Closed()
	}
	if e, ok := wire.FromStatus(err); ok {
		return i.core.Refused(e.Rule, e.Epoch)
	}
	i.core.Broken()
	return wire.Going
}

// breach is a rule that the producer has broken. The stage hears of it at once. The
// producer is told that the subscription has failed, so that it gives back what is not
// acknowledged, and is given a little time to say that it has understood.
func (i *inflow[T]) breach(err error, call sluicev1.SubscriptionService_SubscribeClient, cut func()) error {
	err = i.named(err)
	i.n.log.Warn("a producer broke a rule", "outlet", i.port.Name(), "at", i.where().node, "why", err)
	i.give(stage.Ending{Reason: stage.Refused, Err: err, Drop: true})
	i.mu.Lock()
	_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, clip(err.Error()))
	i.poke()
	i.mu.Unlock()
	defer time.AfterFunc(time.Second, cut).Stop()
	for {
		f, gone := call.Recv()
		if gone != nil {
			i.closed(gone)
			return err
		}
		if end := f.GetEnd(); end != nil {
			i.mu.Lock()
			_ = i.core.End(end.GetLast(), end.GetReason(), "")
			i.poke()
			i.mu.Unlock()
		}
	}
}

// named says in err which outlet of which node it is about.
func (i *inflow[T]) named(err error) error {
	e, ok := wire.FromStatus(err)
	if !ok {
		return fmt.Errorf("node %q: %w", i.where().node, err)
	}
	named := *e
	named.Outlet, named.Node = i.port.Name(), i.where().node
	return &named
}

// conclude tells the stage what the end of the session means.
func (i *inflow[T]) conclude(outcome wire.Outcome, err error) {
	switch outcome {
	case wire.Completed:
		i.give(stage.Ending{Reason: stage.Cancelled})
	case wire.Refused:
		i.give(stage.Ending{Reason: stage.Refused, Err: i.named(err), Drop: true})
	default:
		i.give(stage.Ending{Reason: stage.Lost, Drop: outcome == wire.LostDrop,
			Err: fmt.Errorf("the session is lost: %w", i.named(err))})
	}
}

// expire ends the subscription because its window is over, or the node is cut.
func (i *inflow[T]) expire() {
	i.mu.Lock()
	outcome, at := i.core.Expire(), i.at
	i.mu.Unlock()
	// What a drain has not brought by now, the producer gives to others.
	if outcome == wire.Completed || !i.cancelled().IsZero() {
		i.give(stage.Ending{Reason: stage.Cancelled})
		return
	}
	err := fmt.Errorf("node %q did not come back within %v", at.node, i.terms.ResumeWindow)
	if i.n.ctx.Err() != nil {
		err = errStopped
	}
	i.give(stage.Ending{Reason: stage.Lost, Err: err, Drop: i.terms.AtMostOnce})
}

// write sends open and then what the session has to say, until the stream ends.
func (i *inflow[T]) write(ctx context.Context, call sluicev1.SubscriptionService_SubscribeClient, open *sluicev1.SubscriberFrame, cut func()) {
	for f := open; ; {
		if f != nil {
			if call.Send(f) != nil {
				// Recv says why. But gRPC opens a stream again that broke before it was
				// used, and may do so behind a Send that fails: then Recv waits, and nobody
				// writes. Such a stream is given up.
				pause(ctx, sendPatience)
				cut()
				return
			}
		} else {
			select {
			case <-i.wake:
			case <-ctx.Done():
				return
			}
		}
		var halfClose bool
		i.mu.Lock()
		f, halfClose = i.core.Next()
		i.mu.Unlock()
		if halfClose {
			_ = call.CloseSend()
			return
		}
	}
}

// sendPatience is how long a stream is read that nothing can be sent on.
const sendPatience = time.Second

// reader applies what the producer sends on one stream.
type reader[T any] struct {
	i *inflow[T]
	// events is the delivery so far: the frames that it was cut into are joined.
	events   []T
	attempts int
	again    bool
}

func (r *reader[T]) frame(f *sluicev1.ProducerFrame) error {
	i := r.i
	switch f := f.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		i.mu.Lock()
		err := i.core.Opened(f.Opened.GetEpoch(), f.Opened.GetGranted(), f.Opened.GetNext())
		i.poke()
		i.mu.Unlock()
		if err == nil {
			i.set("open", nil)
			i.to.Opened()
		}
		return err
	case *sluicev1.ProducerFrame_Batch:
		return r.batch(f.Batch)
	case *sluicev1.ProducerFrame_End:
		i.mu.Lock()
		err := i.core.End(f.End.GetLast(), f.End.GetReason(), f.End.GetMessage())
		i.poke()
		i.mu.Unlock()
		if err == nil {
			i.give(endingOf(f.End.GetReason(), f.End.GetMessage()))
		}
		return err
	}
	return nil
}

func (r *reader[T]) batch(b *sluicev1.Batch) error {
	i := r.i
	i.mu.Lock()
	take, err := i.core.Batch(b.GetFirst(), int64(len(b.GetEvents())))
	take = take && !i.given
	i.mu.Unlock()
	if err != nil || !take {
		return err
	}
	if r.events, err = wire.Decode(i.codec, b.GetEvents(), r.events); err != nil {
		return err
	}
	if a := b.GetAttempts(); len(a) > 0 {
		r.again, r.attempts = true, int(a[0])
	}
	if !b.GetMore() {
		r.flush()
	}
	return nil
}

// flush hands over what has arrived. A delivery whose stream broke is handed over as
// far as it came: it counts as received, and the rest follows on the next stream.
func (r *reader[T]) flush() {
	if len(r.events) == 0 {
		return
	}
	r.i.to.Deliver(stage.Batch[T]{Events: r.events, Redelivered: r.again, Attempts: r.attempts})
	clear(r.events)
	r.events, r.again, r.attempts = r.events[:0], false, 0
}

// row is what an operator sees.
func (i *inflow[T]) row() *sluicev1.SubscriptionInfo {
	i.mu.Lock()
	defer i.mu.Unlock()
	state := i.state
	_, _, ended := i.core.Ended()
	switch {
	case state != "open":
	case ended || i.given:
		state = "draining"
	case i.core.Received() > i.core.Acked():
		state = "in-flight"
	case i.core.Granted() == i.core.Received():
		state = "no-demand"
	default:
		state = "no-events"
	}
	r := &sluicev1.SubscriptionInfo{
		Outlet: i.port.Name(), ProducerNode: i.at.node, ConsumerNode: i.terms.Node, ConsumerStage: i.terms.Stage,
		Side:  sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER,
		State: state, MaxDemand: i.terms.MaxDemand, MinDemand: i.terms.MinDemand,
		Granted: i.core.Granted(), Received: i.core.Received(), Acked: i.core.Acked(),
		Age: durationpb.New(time.Since(i.since)), Incarnation: i.n.incarnation, Session: i.session,
		Partition: i.about.GetSubscriber().Partition,
	}
	if i.why != nil {
		r.Reason = i.why.Error()
	}
	return r
}

func (i *inflow[T]) peer() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.at.address
}

// newBackoff is how long a subscription waits before it tries again, with jitter.
func newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 50*time.Millisecond, 2*time.Second
	return b
}

// pause waits for d, or until one of wake says something. It reports false when ctx
// ends.
func pause(ctx context.Context, d time.Duration, wake ...<-chan struct{}) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	var a, b <-chan struct{}
	if len(wake) > 0 {
		a = wake[0]
	}
	if len(wake) > 1 {
		b = wake[1]
	}
	select {
	case <-timer.C:
	case <-a:
	case <-b:
	case <-ctx.Done():
		return false
	}
	return true
}
