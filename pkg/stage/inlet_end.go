package stage

import (
	"context"
)

// part says that subscriptions are over: to the user, and to a producer that did
// not end it itself. It returns how the stage ends if a hook wants that.
func (l *inlet[T]) part(ctx context.Context, ended []*inflow[T]) (v *verdict) {
	for _, in := range ended {
		if in.of == nil {
			in.sub.ended(*in.ending)
		}
		l.mu.Lock()
		up := in.up
		acked, done := in.progress()
		l.mu.Unlock()
		if in.broken && up != nil {
			up.Cancel(Cancel[T]{Acked: acked, Done: done, Reason: in.ending.Err.Error()})
		}
		if in.of != nil {
			l.share(in.of)
			continue
		}
		if l.onCancelled == nil || !in.sub.isOpen() {
			continue
		}
		if w := l.judge(ctx, guard(func() error { return l.onCancelled(in.sub, *in.ending) })); v == nil {
			v = w
		}
	}
	return v
}

// close ends the stage's subscriptions: what was not processed goes back. The first
// tried events in hand, and those that workers have, count as tried.
func (l *inlet[T]) close(v verdict, tried int) verdict {
	reason := "the stage has ended"
	if v.err != nil {
		reason = v.err.Error()
	}
	l.mu.Lock()
	l.closed = true
	l.meter.turn(off)
	subs := l.core.subs
	l.core.subs = nil
	ups := make([]Upstream[T], len(subs))
	for i, in := range subs {
		ups[i] = in.up
	}
	declared := l.declared
	l.mu.Unlock()
	for i, in := range subs {
		up := ups[i]
		if up == nil {
			continue // it is being made: whoever does that sees that the stage has ended
		}
		// First nothing more may come, and then goes back what has come: a delivery on
		// its way would be lost otherwise.
		up.Cancel(Cancel[T]{Drain: true, Reason: reason})
		l.mu.Lock()
		acked, done := in.progress()
		rest, had := l.core.rest(in, tried)
		c := Cancel[T]{Acked: acked, Done: done, Tried: had, Rest: rest, Reason: reason}
		if in.ending == nil {
			in.ending = &Ending{Reason: Cancelled, Err: v.err}
		}
		l.mu.Unlock()
		up.Cancel(c)
		if in.of == nil {
			in.sub.ended(*in.ending)
		}
	}
	for _, d := range declared {
		d.sub.ended(Ending{Reason: Cancelled, Err: v.err})
	}
	return v
}

// drain lets the stage come to an end: subscriptions to outlets that end with it
// (ours says which) run out, the others are cancelled, and what was sent is
// processed.
func (l *inlet[T]) drain(ours func(outlet any) bool) {
	l.mu.Lock()
	l.core.drain()
	var leave []Upstream[T]
	var cancels []Cancel[T]
	for _, in := range l.core.subs {
		if ours(in.outlet) || in.leaving || in.up == nil {
			continue
		}
		in.leaving = true
		acked, done := in.progress()
		leave = append(leave, in.up)
		cancels = append(cancels, Cancel[T]{Drain: true, Acked: acked, Done: done, Reason: "the stage is stopped"})
	}
	l.news.Broadcast()
	l.mu.Unlock()
	for i, up := range leave {
		up.Cancel(cancels[i])
	}
}

// stop ends the stage at once, with err.
func (l *inlet[T]) stop(err error) {
	l.mu.Lock()
	l.cut = err
	l.news.Broadcast()
	l.mu.Unlock()
}
