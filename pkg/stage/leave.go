package stage

import (
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
)

// revoke takes back the credit of a subscriber, and what is held for it.
func (p *producer[T]) revoke(sub *outflow[T]) int64 {
	if sub.left {
		return 0
	}
	n := credit.Add(sub.ledger.Credit(), p.unhold(sub))
	p.dispatcher.Revoke(sub.id)
	sub.ledger.Revoke(sub.ledger.Credit())
	sub.allotted = sub.ledger.Sent()
	p.settle(0)
	return n
}

// giveUp discards the last n events that sub was sent, and asks for others.
func (p *producer[T]) giveUp(sub *outflow[T], n int, reason string) {
	n = min(n, int(sub.ledger.Unacked()))
	if n < 1 {
		return
	}
	before := sub.ledger.Unacked()
	sub.ledger.Unsend(int64(n))
	p.tally(sub, before)
	p.discard(reason, n)
	if !sub.left {
		p.dispatcher.Ask(sub.id, int64(n))
	} else if sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
	p.settle(0)
}

// leave ends a subscription from the consumer's side. What was sent is processed
// still; a failure may follow.
func (p *producer[T]) leave(sub *outflow[T], ending Ending) {
	p.part(sub, ending)
	if sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
	p.settle(0)
}

// refuse ends a subscription whose consumer broke a rule. What was sent is not
// waited for, but may still come back.
func (p *producer[T]) refuse(sub *outflow[T], err error) {
	p.part(sub, Ending{Reason: Refused, Err: err})
	p.drop(sub)
	p.settle(0)
}

// fail ends a subscription from the consumer's side, and takes back what was not
// processed. A broadcast's copies cannot go to anybody else: they are discarded.
func (p *producer[T]) fail(sub *outflow[T], ending Ending, rest []Returned[T]) {
	p.part(sub, ending)
	p.drop(sub)
	// Whatever comes back, it is no more than was sent, and it comes back once.
	lost := int(sub.ledger.Unacked() - sub.done.Count())
	_, _ = sub.ledger.Ack(sub.ledger.Sent())
	rest = rest[:min(len(rest), lost)]
	switch {
	case sub.terms.AtMostOnce:
		p.discard(DiscardAtMostOnce, lost)
	case p.ended:
		p.discard(DiscardEnded, lost)
	case p.dispatcher.Kind() == "broadcast":
		p.discard(DiscardCopy, lost)
	default:
		p.discard(DiscardKept, lost-len(rest))
		p.putBack(p.untired(rest, ending.Err))
	}
	p.settle(0)
}

// untired gives up what has come back too often, because of why, and returns the rest.
func (p *producer[T]) untired(rest []Returned[T], why error) []Returned[T] {
	exhausted := func(r Returned[T]) bool { return p.maxAttempts > 0 && r.Attempts >= p.maxAttempts }
	var tired []Returned[T]
	for _, r := range rest {
		if exhausted(r) {
			tired = append(tired, r)
		}
	}
	if len(tired) == 0 {
		return rest
	}
	p.discard(DiscardExhausted, len(tired))
	last := &p.todo[len(p.todo)-1]
	last.tired, last.why = tired, why
	return slices.DeleteFunc(rest, exhausted)
}

// putBack returns events to the front of their lanes, in order.
func (p *producer[T]) putBack(rest []Returned[T]) {
	if p.dispatcher.Lanes() == 1 {
		p.store.putBack(0, rest...)
		return
	}
	p.loose = len(rest)
	lanes := make([][]Returned[T], len(p.store.lanes))
	for _, r := range rest {
		l := p.dispatcher.Lane(r.Event)
		lanes[l] = append(lanes[l], r)
	}
	for l, events := range lanes {
		p.store.putBack(l, events...)
	}
	p.loose = 0
}

// part takes a subscriber out of the dispatch and tells it, unless it has left
// before.
func (p *producer[T]) part(sub *outflow[T], ending Ending) {
	if sub.left {
		return
	}
	sub.left = true
	p.joined--
	p.unhold(sub)
	p.dispatcher.Leave(sub.id)
	if sub.ledger.Granted() == credit.Unbounded {
		p.unmet = 0
	}
	p.todo = append(p.todo, order[T]{sub: sub, ending: &ending, joined: p.joined})
}

// drop forgets a subscriber.
func (p *producer[T]) drop(sub *outflow[T]) {
	if i, ok := p.at(sub.id); ok {
		p.subs = slices.Delete(p.subs, i, i+1)
		p.unacked -= sub.ledger.Unacked()
		sub.dropped = true
	}
}
