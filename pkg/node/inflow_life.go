package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// run carries the member to its end.
func (i *inflow[T]) run() {
	defer close(i.done)
	ctx, cancel := context.WithCancel(i.n.ctx)
	defer cancel()
	if i.before != nil {
		pause(ctx, i.n.tuning.farewell, i.before) // as for its group
	}
	if i.first(ctx) {
		i.last(ctx)
	}
}

// first opens the session. It reports false when there is none to go on with.
func (i *inflow[T]) first(ctx context.Context) bool {
	retry := newBackoff()
	unsure := false // whether the producer holds the session
	for {
		if !i.cancelled().IsZero() {
			i.give(stage.Ending{Reason: stage.Cancelled})
			if unsure {
				i.mu.Lock()
				_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "withdrawn")
				i.mu.Unlock()
			}
			return unsure // a producer that holds the session is told
		}
		before := i.attempts()
		opened, outcome, err := i.stream(ctx, time.Time{})
		if opened && outcome == wire.Going {
			return true
		}
		// A session that was never opened is stale to a producer that remembers a later start
		// of this node, whose clock was behind or ahead: it forgets that in the end.
		if outcome != wire.Going && !errors.Is(err, wire.RuleUnknownOutlet) && !errors.Is(err, wire.RuleStaleOpen) {
			i.conclude(outcome, err)
			return false
		}
		// Gossip was ahead of the node, or behind it; the node is the one to believe.
		_, said := wire.FromStatus(err)
		unsure = !said && i.attempts() > before
		i.set("waiting", i.named(err))
		i.g.unready(i.at.id())
		if !pause(ctx, retry.NextBackOff(), i.wake) {
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
		if i.hopeless() {
			i.expire()
			return
		}
		broke := time.Now()
		i.g.broken(i.at.id())
		for opened := false; !opened; {
			i.set("reconnecting", fmt.Errorf("the connection to node %q broke", i.at.node))
			i.release(broke)
			wait := min(retry.NextBackOff(), time.Until(i.deadline(broke)))
			if !pause(ctx, wait, i.hurry) || !time.Now().Before(i.deadline(broke)) {
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
	if left.IsZero() || time.Since(later(left, broke)) < i.n.tuning.farewell {
		return
	}
	i.give(stage.Ending{Reason: stage.Cancelled, Err: i.untold()})
	i.mu.Lock()
	defer i.mu.Unlock()
	_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "the connection broke while it was drained")
}

// deadline is when a session gives up that has no stream since broke: when its window
// is over, or sooner where its node stops. What the producer was not told by then, its
// own window says.
func (i *inflow[T]) deadline(broke time.Time) time.Time {
	if i.isReplaced() {
		return broke
	}
	d := broke.Add(i.terms.ResumeWindow)
	stops, left := i.n.leftAt(), i.cancelled()
	if stops.IsZero() {
		return d
	}
	if !left.IsZero() && left.Before(stops) {
		stops = left
	}
	if soon := later(stops, broke).Add(i.n.tuning.farewell); soon.Before(d) {
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

// attempts is how many Opens were sent.
func (i *inflow[T]) attempts() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.core.Attempt()
}

// named says in err which outlet of which node it is about.
func (i *inflow[T]) named(err error) error {
	e, ok := wire.FromStatus(err)
	if !ok {
		return fmt.Errorf("node %q: %w", i.at.node, err)
	}
	named := *e
	named.Outlet, named.Node = i.port.Name(), i.at.node
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

// untold is what the log says of a session whose producer does not know how it has ended.
const untold = "a producer could not be told what was processed"

// expire ends the subscription because its window is over, or the node is cut.
func (i *inflow[T]) expire() {
	i.mu.Lock()
	outcome, replaced := i.core.Expire(), i.replaced
	i.mu.Unlock()
	if outcome == wire.Completed || !i.cancelled().IsZero() {
		// The stage may have heard the last of it long ago. What its producer was not told
		// comes again elsewhere.
		i.n.log.Warn(untold, "outlet", i.port.Name(), "stage", i.terms.Stage, "at", i.at.node, "session", i.session)
	}
	if outcome == wire.Completed {
		i.give(stage.Ending{Reason: stage.Cancelled})
		return
	}
	// What a drain has not brought by now, the producer gives to others.
	if !i.cancelled().IsZero() {
		i.give(stage.Ending{Reason: stage.Cancelled, Err: i.untold()})
		return
	}
	err := fmt.Errorf("node %q did not come back within %v", i.at.node, i.terms.ResumeWindow)
	if replaced {
		err = fmt.Errorf("node %q was started anew", i.at.node)
	}
	if i.n.ctx.Err() != nil {
		err = errStopped
	}
	i.give(stage.Ending{Reason: stage.Lost, Err: err, Drop: i.terms.AtMostOnce})
}

// untold says in the ending of a subscription that was cancelled that its producer may
// not know what was processed, and so gives some of it to others.
func (i *inflow[T]) untold() error {
	return fmt.Errorf("node %q could not be told what was processed", i.at.node)
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
