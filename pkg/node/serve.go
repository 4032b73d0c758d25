package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/internal/authz"
	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// subscriptions serves the streams that consumers open.
type subscriptions struct {
	sluicev1.UnimplementedSubscriptionServiceServer
	n *Node
}

// session is the producer's end of a subscription, whatever the type of its events.
type session interface {
	// frame applies a frame of the consumer's that came on s.
	frame(s *stream, f *sluicev1.SubscriberFrame) error
	// halfClosed applies that the consumer has closed its side of s.
	halfClosed(s *stream) error
	// broken says that s broke.
	broken(s *stream)
	// violated ends the session, because a frame on s broke a rule.
	violated(s *stream, err error)
	// sender returns what returns the next frame to send on s, or nil when there is
	// none now. With idle, a sign of life is due where there is nothing else. It is called
	// by one goroutine at a time.
	sender(s *stream) func(idle bool) any
}

// maxSubscriber is how long the names of a subscriber's node and stage may be.
const maxSubscriber = 255

// stream is one stream of a subscription, as its server sees it. One goroutine
// receives and one sends; where it is sure not to wait, another one that has just made
// something to send may send it as well.
type stream struct {
	identity string // of the peer; empty without TLS
	guest    string // whom it counts for
	attempt  uint64
	limit    int64         // the largest frame that the peer takes
	wake     chan struct{} // there may be something to send
	queued   atomic.Bool   // it stands in the line of the node's budget
	pulse    *pulse

	flight  flight
	sending sync.Mutex // held by who sends
	call    grpc.ServerStream
	next    func(idle bool) any // see session.sender

	once  sync.Once
	over  chan struct{}
	cause error // with which the stream is closed; nil is OK
}

// newStream returns a stream on which nothing is sent before it is ready.
func newStream(o *sluicev1.Open, beat time.Duration, identity, guest string) *stream {
	s := &stream{
		identity: identity, guest: guest,
		attempt: o.GetAttempt(), limit: min(o.GetMaxFrameBytes(), maxFrame), pulse: newPulse(wire.Heartbeat(beat, o.GetHeartbeat())),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	s.sending.Lock()
	return s
}

// ready sets what sends, and what makes that which is sent.
func (s *stream) ready(call grpc.ServerStream, next func(idle bool) any) {
	s.call, s.next = call, next
	s.sending.Unlock()
}

// close ends the stream with err, or with OK.
func (s *stream) close(err error) {
	s.once.Do(func() {
		s.cause = err
		close(s.over)
	})
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// flush sends what there is to send. Where it is lent, it stops when it might wait. Sending
// is held.
func (s *stream) flush(idle, lent bool) error {
	for {
		select {
		case <-s.over:
			return nil
		default:
		}
		if lent && !s.flight.light() {
			s.poke()
			return nil
		}
		f := s.next(idle)
		if f == nil {
			return nil
		}
		if err := s.call.SendMsg(f); err != nil {
			return err
		}
		s.pulse.spoke()
		idle = false
	}
}

// lend sends on the caller's goroutine, unless another one sends already: then that one's
// is told to look again.
func (s *stream) lend() error {
	if !s.sending.TryLock() {
		s.poke()
		return nil
	}
	defer s.sending.Unlock()
	return s.flush(false, true)
}

// errReplaced closes a stream that another one of its subscription has replaced.
var errReplaced = status.Error(codes.Aborted, "another stream has replaced this one")

func (s *subscriptions) Subscribe(grpcStream sluicev1.SubscriptionService_SubscribeServer) error {
	guest := guestOf(grpcStream.Context())
	if err := s.n.guests.arrive(guest); err != nil {
		return s.refuse(nil, err)
	}
	first, err := receiveFirst(grpcStream)
	s.n.guests.depart(guest)
	if err != nil {
		return s.refuse(nil, err)
	}
	open, opening, err := wire.ReadOpen(first)
	if err == nil {
		err = checkSize(first)
	}
	if err == nil {
		err = s.n.checkOpen(open)
	}
	if err != nil {
		return s.refuse(open, err)
	}
	who := peerIdentity(grpcStream.Context())
	if !s.n.allows(who, authz.Subscribe, open.GetOutlet()) {
		return s.refuse(open, forbidden(s.n.config.Name, who, authz.Subscribe, open.GetOutlet()))
	}
	s.n.mu.Lock()
	p := s.n.published[open.GetOutlet()]
	s.n.mu.Unlock()
	if p == nil {
		return s.refuse(open, &wire.Error{Rule: wire.RuleUnknownOutlet,
			What: fmt.Sprintf("no outlet %q is offered here", open.GetOutlet()), Hint: "sluicectl outlets lists what is offered"})
	}
	own := newStream(open, s.n.tuning.beat, who, guest)
	defer own.pulse.stop()
	held, err := p.open(open, opening, own)
	if err != nil {
		return s.refuse(open, err)
	}
	own.ready(grpcStream, held.sender(own))
	own.pulse.judge(func() { s.silent(open, held, own) })
	go s.guard(held, own, func() { s.receive(grpcStream, held, own) })
	go s.guard(held, own, func() { own.close(s.send(held, own)) })
	// Not the goroutine that sends: a Send that flow control holds up ends only when this
	// returns.
	<-own.over
	return s.refuse(open, own.cause)
}

// guard keeps a panic of f, which carries a stream, from ending the process: f is not
// called by gRPC, whose own net is not spread under it.
func (s *subscriptions) guard(held session, own *stream, f func()) {
	defer func() {
		if v := recover(); v != nil {
			s.n.log.Error("a subscription panicked", "panic", v, "stack", string(debug.Stack()))
			own.close(status.Error(codes.Internal, "the subscription panicked: see the log of the node"))
			held.broken(own)
		}
	}()
	f()
}

// checkSize holds a consumer's frame to the limit that it was told.
func checkSize(f *sluicev1.SubscriberFrame) error {
	if n := wire.FrameSize(f); n > maxAsked {
		return &wire.Error{Rule: wire.RuleFrameTooLarge, What: fmt.Sprintf("a frame has %d bytes", n),
			Hint: fmt.Sprintf("at most %d, as Opened says", maxAsked)}
	}
	return nil
}

// checkDemand bounds what a subscriber may have asked for.
func (n *Node) checkDemand(granted, acked int64) error {
	if granted != credit.Unbounded && granted-acked > n.config.MaxDemand {
		return &wire.Error{Rule: wire.RuleAskTooLarge, What: fmt.Sprintf("the subscriber has asked for %d and acknowledged %d", granted, acked),
			Hint: fmt.Sprintf("at most %d are open at a time", n.config.MaxDemand)}
	}
	return nil
}

// checkOpen bounds what a stranger may make the node remember, and lose.
func (n *Node) checkOpen(o *sluicev1.Open) error {
	switch who := o.GetSubscriber(); {
	case len(who.GetNode()) > maxSubscriber || len(who.GetStage()) > maxSubscriber:
		return &wire.Error{Rule: wire.RuleSubscriberInvalid,
			What: fmt.Sprintf("the names of the subscriber have %d and %d bytes", len(who.GetNode()), len(who.GetStage())),
			Hint: fmt.Sprintf("at most %d each", maxSubscriber)}
	case o.GetMaxFrameBytes() < smallestFrame:
		return &wire.Error{Rule: wire.RuleUnsupportedTerms,
			What: fmt.Sprintf("the subscriber takes frames of %d bytes", o.GetMaxFrameBytes()),
			Hint: fmt.Sprintf("take at least %d: events that do not fit are discarded", smallestFrame)}
	}
	return n.checkDemand(o.GetGranted(), o.GetAcked())
}

// refuse puts the node's epoch into what refuses or breaks a subscription, and says
// it to the log.
func (s *subscriptions) refuse(o *sluicev1.Open, err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	said.Epoch, said.What = s.n.incarnation, clip(e.What)
	who := o.GetSubscriber()
	s.n.denials.add(denial{rule: string(e.Rule), who: fmt.Sprintf("stage %q of node %q", who.GetStage(), who.GetNode()),
		what: fmt.Sprintf("subscribe %q", o.GetOutlet()), why: said.What, hint: e.Hint})
	return &said
}

// receiveFirst waits for the first frame, for a while.
func receiveFirst(grpcStream sluicev1.SubscriptionService_SubscribeServer) (*sluicev1.SubscriberFrame, error) {
	type got struct {
		f   *sluicev1.SubscriberFrame
		err error
	}
	ctx, cancel := context.WithTimeout(grpcStream.Context(), openTimeout)
	defer cancel()
	c := make(chan got, 1)
	go func() {
		f, err := grpcStream.Recv()
		c <- got{f, err}
	}()
	select {
	case x := <-c:
		if x.err == io.EOF { //nolint:errorlint // as Recv returns it
			return nil, &wire.Error{Rule: wire.RuleFirstFrameNotOpen, What: "the stream was closed without a frame"}
		}
		return x.f, x.err
	case <-ctx.Done():
		if err := grpcStream.Context().Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
		// It may be on its way: the consumer is to try again.
		return nil, &wire.Error{Rule: wire.RuleSilent, What: fmt.Sprintf("no frame came within %v", openTimeout)}
	}
}

// receive applies what the consumer sends, until the stream ends.
func (s *subscriptions) receive(grpcStream sluicev1.SubscriptionService_SubscribeServer, held session, own *stream) {
	for {
		own.pulse.waiting()
		f, err := grpcStream.Recv()
		own.pulse.heard()
		switch {
		case err == io.EOF: //nolint:errorlint // as Recv returns it
			if err := held.halfClosed(own); err != nil {
				held.violated(own, err)
			}
			return
		case status.Code(err) == codes.ResourceExhausted:
			// gRPC has answered by itself: it is too large even to be read.
			held.violated(own, &wire.Error{Rule: wire.RuleFrameTooLarge, What: err.Error()})
			return
		case err != nil:
			held.broken(own)
			return
		}
		if err = checkSize(f); err == nil {
			err = wire.CheckSubscriberFrame(f)
		}
		if err == nil {
			err = held.frame(own, f)
		}
		if err != nil {
			held.violated(own, err)
			return
		}
	}
}

// silent cuts a stream whose consumer has given no sign of life.
func (s *subscriptions) silent(o *sluicev1.Open, held session, own *stream) {
	quiet := wire.Silence(own.pulse.interval())
	s.n.log.Warn("subscriber is silent", "outlet", o.GetOutlet(), "stage", o.GetSubscriber().GetStage(), "of", o.GetSubscriber().GetNode(), "for", quiet)
	own.close(&wire.Error{Rule: wire.RuleSilent, Epoch: s.n.incarnation, What: fmt.Sprintf("the subscriber has sent nothing for %v", quiet)})
	held.broken(own)
}

// send sends what there is to send, until the stream is over, and returns how.
func (s *subscriptions) send(held session, own *stream) error {
	for due := false; ; {
		own.sending.Lock()
		err := own.flush(due, false)
		own.sending.Unlock()
		if err != nil {
			held.broken(own)
			return err
		}
		due = false
		select {
		case <-own.over:
			return own.cause
		default:
		}
		select {
		case <-own.wake:
		case <-own.pulse.owes.C:
			own.sending.Lock()
			due = own.pulse.due()
			own.sending.Unlock()
		case <-own.over:
		case <-s.n.ctx.Done():
			// Where the session has just come to its end, its consumer is told that.
			own.close(status.Error(codes.Unavailable, "the node is stopped"))
			held.broken(own)
		}
	}
}
