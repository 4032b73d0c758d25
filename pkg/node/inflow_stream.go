package node

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// stream opens one stream and carries the session on it until it ends. opened says
// that the producer has answered with Opened, which it must until limit, if that is
// not zero.
func (i *inflow[T]) stream(ctx context.Context, limit time.Time) (opened bool, outcome wire.Outcome, err error) {
	at := i.at
	if limit.IsZero() {
		i.set("opening", fmt.Errorf("node %q has not answered yet", at.node))
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
	call, err := i.n.tuning.subscribe(ctx, &i.n.peers, at.address)
	if err != nil {
		return false, wire.Going, err
	}
	return i.carry(ctx, call, at, unanswered, cancel)
}

// carry carries the session on a stream that has just been made, until that ends, or cut
// ends it. unanswered is stopped by Opened.
func (i *inflow[T]) carry(ctx context.Context, call sluicev1.SubscriptionService_SubscribeClient, at publisher, unanswered *time.Timer, cut func()) (opened bool, outcome wire.Outcome, err error) {
	life := newPulse(i.n.tuning.beat)
	defer life.stop()
	w := &writer[T]{i: i, ctx: ctx, call: call, life: life, cut: cut}
	i.mu.Lock()
	open := wire.OpenFrame(i.about, i.core.Open())
	i.writer = w
	i.mu.Unlock()
	defer w.close()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cut()
	writing.Go(func() { w.run(open) })
	r := reader[T]{i: i, w: w, life: life}
	life.judge(func() {
		i.n.log.Warn("a producer is silent", "outlet", i.port.Name(), "at", at.node, "for", wire.Silence(life.interval()))
		i.n.peers.forget(at.address, life.begin)
		cut()
	})
	f := new(sluicev1.ProducerFrame)
	r.arrival = arrival{frame: f, memory: wire.MemoryOf(i.codec)}
	for {
		// Before Opened there is another limit. Behind End nothing is due until everything
		// is said.
		if opened && !r.ended {
			life.waiting()
		}
		err := call.RecvMsg(&r.arrival)
		life.heard()
		if err != nil {
			r.flush()
			err = i.tooLarge(err)
			if e, ok := wire.FromStatus(err); ok && e.Rule == wire.RuleSilent || !opened && !unanswered.Stop() {
				i.n.peers.forget(at.address, life.begin) // what is sent does not arrive, or no answer
			}
			return opened, i.closed(err), err
		}
		if f.GetOpened() != nil {
			unanswered.Stop()
			if err := i.verify(call.Context()); err != nil {
				return opened, wire.Going, err
			}
		}
		if err = wire.CheckProducerFrame(f); err == nil {
			err = r.frame(f)
		}
		if err != nil {
			return opened, wire.Refused, i.breach(err, call, cut)
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

// tooLarge says by its rule that a frame was too large for its receiver, where gRPC has
// found that, at either end, in words of its own.
func (i *inflow[T]) tooLarge(err error) error {
	s := status.Convert(err)
	if _, said := wire.FromStatus(err); said || s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "larger than max") {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return &wire.Error{Rule: wire.RuleFrameTooLarge, Epoch: i.core.Epoch(), What: s.Message()}
}

// breach is a rule that the producer has broken. The stage hears of it at once. The
// producer is told that the subscription has failed, so that it gives back what is not
// acknowledged, and is given a little time to say that it has understood.
func (i *inflow[T]) breach(err error, call sluicev1.SubscriptionService_SubscribeClient, cut func()) error {
	err = i.named(err)
	i.n.log.Warn("a producer broke a rule", "outlet", i.port.Name(), "at", i.at.node, "why", err)
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

// reader applies what the producer sends on one stream.
type reader[T any] struct {
	i       *inflow[T]
	w       *writer[T]
	life    *pulse
	arrival arrival
	// ended says that the producer has sent its last frame.
	ended bool
	// events is the delivery so far: the frames that it was cut into are joined.
	events   []T
	attempts int
	again    bool
	bytes    int64
}

func (r *reader[T]) frame(f *sluicev1.ProducerFrame) error {
	i := r.i
	switch f := f.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		i.mu.Lock()
		err := i.core.Opened(f.Opened.GetEpoch(), f.Opened.GetGranted(), f.Opened.GetNext())
		i.core.FramesUpTo(f.Opened.GetMaxFrameBytes())
		r.w.opened = err == nil
		i.poke()
		i.mu.Unlock()
		if err == nil {
			r.life.beat.Store(int64(wire.Heartbeat(i.n.tuning.beat, f.Opened.GetHeartbeat())))
			i.leaves(time.Time{}) // or says so again
			i.set("open", nil)
			i.g.opened(i.at.id())
			i.to.Opened()
		}
		return err
	case *sluicev1.ProducerFrame_Batch:
		return r.batch(f.Batch)
	case *sluicev1.ProducerFrame_Idle:
		r.flush() // nothing more of that delivery comes for now, or at all
	case *sluicev1.ProducerFrame_Draining:
		i.leaves(time.Now().Add(f.Draining.GetDeadline().AsDuration()))
		i.g.drains(i.at.id())
	case *sluicev1.ProducerFrame_End:
		r.flush()
		r.ended = true
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
	if take && r.arrival.memory == wire.Lent {
		i.lent = append(i.lent, lentFrame{last: i.core.Received(), data: r.arrival.keep()})
	}
	i.mu.Unlock()
	if err != nil || !take {
		return err
	}
	if r.events, err = decode(i.codec, b.GetEvents(), r.events); err != nil {
		return err
	}
	r.bytes += weigh(b.GetEvents())
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
	r.i.to.Deliver(stage.Batch[T]{Events: r.events, Redelivered: r.again, Attempts: r.attempts, Bytes: r.bytes})
	clear(r.events)
	r.events, r.again, r.attempts, r.bytes = r.events[:0], false, 0, 0
}

// verify says whether who has answered may publish the outlet. Where not, the stream
// is no good; that gossip has led to it is no reason to give up.
func (i *inflow[T]) verify(answered context.Context) error {
	p, ok := peer.FromContext(answered)
	if !ok {
		p = &peer.Peer{}
	}
	err := i.n.checkPublish(p, i.port.Name())
	if err != nil {
		i.mu.Lock()
		i.core.Broken()
		i.mu.Unlock()
	}
	return err
}
