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
	terms   stage.Terms
	to      stage.Receiver[T]
	about   *sluicev1.Open
	session uint64
	wake    chan struct{} // there may be something to write, or a reason to look again

	mu       sync.Mutex
	core     *wire.Consumer
	at       publisher // where the session is, or is sought
	state    string
	why      error // what it waits for
	since    time.Time
	given    bool // Ended was called: the stage has heard the last of it
	unwanted bool // cancelled before it was ever opened
}

func newInflow[T any](n *Node, port wire.Port[T], terms stage.Terms, to stage.Receiver[T], about *sluicev1.Open, core *wire.Consumer, session uint64) *inflow[T] {
	return &inflow[T]{
		n: n, port: port, terms: terms, to: to, about: about, core: core, session: session,
		wake: make(chan struct{}, 1), state: "waiting", since: time.Now(),
		why: &wire.Error{Rule: wire.RuleUnknownOutlet, Outlet: port.Name(), What: "no node offers it"},
	}
}

// Ask implements stage.Upstream.
func (i *inflow[T]) Ask(n, acked int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.given {
		return nil
	}
	i.processed(acked, false)
	i.poke()
	return i.core.Ask(n)
}

// Ack implements stage.Upstream.
func (i *inflow[T]) Ack(acked int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processed(acked, true)
	i.poke()
	return nil
}

// processed books what is processed. What is booked already is no news: asks come
// from several goroutines, and may overtake each other.
func (i *inflow[T]) processed(acked int64, idle bool) {
	if acked >= i.core.Acked() {
		_ = i.core.Processed(acked, nil, idle)
	}
}

// Cancel implements stage.Upstream.
func (i *inflow[T]) Cancel(c stage.Cancel[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processed(c.Acked, true)
	kind := sluicev1.CancelKind_CANCEL_KIND_FAILED
	if c.Drain {
		kind = sluicev1.CancelKind_CANCEL_KIND_DRAIN
	}
	_ = i.core.Cancel(kind, c.Reason)
	i.unwanted = i.unwanted || i.core.Attempt() == 0
	i.poke()
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
	defer i.n.forget(i)
	ctx, cancel := context.WithCancel(i.n.ctx)
	defer cancel()
	if !i.first(ctx) {
		return
	}
	// From here on the session exists, at one node: nobody else can go on with it.
	retry := newBackoff()
	for {
		deadline := time.Now().Add(i.terms.ResumeWindow)
		for {
			i.set("reconnecting", i.reason())
			if !pause(ctx, min(retry.NextBackOff(), time.Until(deadline)), nil) || !time.Now().Before(deadline) {
				i.expire()
				return
			}
			opened, outcome, err := i.stream(ctx)
			if outcome != wire.Going {
				i.conclude(outcome, err)
				return
			}
			if opened {
				retry.Reset()
				break
			}
		}
	}
}

// reason is what a subscription without a stream waits for.
func (i *inflow[T]) reason() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return fmt.Errorf("the connection to node %q broke", i.at.node)
}

// first waits for a publisher and opens the session. It reports false when the
// subscription is over already.
func (i *inflow[T]) first(ctx context.Context) bool {
	retry := newBackoff()
	for try := 0; ; try++ {
		i.mu.Lock()
		unwanted := i.unwanted
		i.mu.Unlock()
		if unwanted {
			i.give(stage.Ending{Reason: stage.Cancelled})
			return false
		}
		found, changed := i.n.cluster.find(i.port.Name(), i.terms.Node+"/"+i.terms.Stage)
		if len(found) == 0 {
			i.set("waiting", &wire.Error{Rule: wire.RuleUnknownOutlet, Outlet: i.port.Name(), What: "no node offers it"})
			if !pause(ctx, time.Hour, changed, i.wake) {
				i.give(stage.Ending{Reason: stage.Cancelled, Err: errStopped})
				return false
			}
			continue
		}
		i.mu.Lock()
		i.at = found[try%len(found)]
		i.mu.Unlock()
		opened, outcome, err := i.stream(ctx)
		if opened && outcome == wire.Going {
			return true
		}
		if outcome != wire.Going && !errors.Is(err, wire.RuleUnknownOutlet) {
			i.conclude(outcome, err)
			return false
		}
		// Gossip was ahead of the node, or behind it; the node is the one to believe.
		i.set("waiting", err)
		if !pause(ctx, retry.NextBackOff(), changed, i.wake) {
			i.give(stage.Ending{Reason: stage.Cancelled, Err: errStopped})
			return false
		}
	}
}

// stream opens one stream and carries the session on it until it ends. opened says
// that the producer has answered with Opened.
func (i *inflow[T]) stream(ctx context.Context) (opened bool, outcome wire.Outcome, err error) {
	i.mu.Lock()
	at := i.at
	i.mu.Unlock()
	i.set("opening", fmt.Errorf("node %q has not answered yet", at.node))
	conn, err := i.n.peers.dial(at.address)
	if err != nil {
		return false, wire.Going, err
	}
	ctx, cancel := context.WithCancel(ctx)
	call, err := sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
	if err != nil {
		cancel()
		return false, wire.Going, err
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	i.mu.Lock()
	open := wire.OpenFrame(i.about, i.core.Open())
	i.mu.Unlock()
	if err := call.Send(open); err == nil {
		writer.Go(func() { i.write(ctx, call) })
	}
	// An answer that does not come is a stream that does not work.
	unanswered := time.AfterFunc(openTimeout, cancel)
	defer unanswered.Stop()
	r := reader[T]{i: i}
	for {
		f, err := call.Recv()
		if err != nil {
			return opened, i.closed(err), err
		}
		if err := wire.CheckProducerFrame(f); err != nil {
			return opened, wire.Refused, i.breach(err)
		}
		if f.GetOpened() != nil {
			unanswered.Stop()
			opened = true
		}
		if err := r.frame(f); err != nil {
			return opened, wire.Refused, i.breach(err)
		}
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

// breach is a rule that the producer has broken. The session ends; the end of the
// stream tells the producer, and its window gives back what is not acknowledged.
func (i *inflow[T]) breach(err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		e.Outlet, e.Node = i.port.Name(), i.at.node
	}
	i.n.log.Warn("a producer broke a rule", "outlet", i.port.Name(), "at", i.at.node, "why", err)
	return err
}

// conclude tells the stage what the end of the session means.
func (i *inflow[T]) conclude(outcome wire.Outcome, err error) {
	switch outcome {
	case wire.Completed:
		i.give(stage.Ending{Reason: stage.Cancelled})
	case wire.Refused:
		if e, ok := wire.FromStatus(err); ok {
			e.Outlet, e.Node = i.port.Name(), i.at.node
			err = e
		}
		i.give(stage.Ending{Reason: stage.Refused, Err: err})
	default:
		i.give(stage.Ending{Reason: stage.Lost, Drop: outcome == wire.LostDrop,
			Err: fmt.Errorf("node %q has lost the session: %w", i.at.node, err)})
	}
}

// expire ends the subscription because its window is over, or the node is cut.
func (i *inflow[T]) expire() {
	i.mu.Lock()
	outcome, at := i.core.Expire(), i.at
	i.mu.Unlock()
	if outcome == wire.Completed {
		i.give(stage.Ending{Reason: stage.Cancelled})
		return
	}
	err := fmt.Errorf("node %q did not come back within %v", at.node, i.terms.ResumeWindow)
	if i.n.ctx.Err() != nil {
		err = errStopped
	}
	i.give(stage.Ending{Reason: stage.Lost, Err: err, Drop: i.terms.AtMostOnce})
}

// write sends what the session has to say, until the stream ends.
func (i *inflow[T]) write(ctx context.Context, call sluicev1.SubscriptionService_SubscribeClient) {
	for {
		i.mu.Lock()
		f, halfClose := i.core.Next()
		i.mu.Unlock()
		switch {
		case f != nil:
			if call.Send(f) != nil {
				return // Recv says why
			}
			continue
		case halfClose:
			_ = call.CloseSend()
			return
		}
		select {
		case <-i.wake:
		case <-ctx.Done():
			return
		}
	}
}

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
	n := len(r.events)
	events, err := decode(i.port.Codec(), b.GetEvents(), r.events)
	if err != nil {
		return err
	}
	r.events = events
	i.mu.Lock()
	take, err := i.core.Batch(b.GetFirst(), int64(len(b.GetEvents())))
	given := i.given
	i.mu.Unlock()
	if err != nil {
		return err
	}
	if !take || given {
		r.events = r.events[:n]
		return nil
	}
	if a := b.GetAttempts(); len(a) > 0 {
		r.again, r.attempts = true, int(a[0])
	}
	if b.GetMore() {
		return nil
	}
	i.to.Deliver(stage.Batch[T]{Events: r.events, Redelivered: r.again, Attempts: r.attempts})
	clear(r.events)
	r.events, r.again, r.attempts = r.events[:0], false, 0
	return nil
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
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 3*time.Second
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
