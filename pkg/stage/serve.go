package stage

import (
	"fmt"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/dispatch"
)

// emit takes events that were produced. The slice stays the caller's, and must
// stay as it is until todo has been done.
func (p *producer[T]) emit(events []T) {
	if len(events) == 0 {
		return
	}
	if p.ended {
		p.discard(DiscardEnded, len(events))
		return
	}
	p.produced += int64(len(events))
	p.loose = len(events)
	if p.store.len() > 0 || p.dispatcher.Lanes() > 1 {
		p.storeAll(events)
		p.settle(len(events))
		return
	}
	// The straight way: nobody's turn is before theirs, so what was asked for goes
	// out of the caller's slice, and only the rest is stored.
	rest := events
	for {
		d, ok := p.dispatcher.Next(func(int) int { return len(rest) })
		if !ok {
			break
		}
		p.check(d, len(rest))
		p.send(d, Batch[T]{Events: rest[:d.N:d.N]})
		rest = rest[d.N:]
		p.loose = len(rest)
	}
	p.store.put(0, rest...)
	p.loose = 0
	p.settle(len(events))
}

// storeAll puts events into their lanes.
func (p *producer[T]) storeAll(events []T) {
	if p.dispatcher.Lanes() == 1 {
		p.store.put(0, events...)
		p.loose = 0
		return
	}
	for _, e := range events {
		p.store.put(p.dispatcher.Lane(e), e)
		p.loose--
	}
}

// settle serves what waits, gives up what is over the limit, and draws the
// conclusions. produced is the number of events that have just been produced.
func (p *producer[T]) settle(produced int) {
	if p.ended {
		return
	}
	for p.store.len() > 0 {
		d, ok := p.dispatcher.Next(p.store.waiting)
		if !ok {
			break
		}
		p.check(d, p.store.waiting(d.Lane))
		for left := d.N; left > 0; {
			b := p.store.take(d.Lane, left)
			left -= len(b.Events)
			p.loose = len(b.Events)
			p.send(d, b)
		}
		p.loose = 0
	}
	p.discard(DiscardOverflow, p.store.trim())
	before, open := p.unmet, max(p.open(), 0)
	p.unmet = max(before-int64(produced), open)
	p.departed = p.unmet - open
	if p.unmet > before {
		p.asks++
	}
	if p.hurried && len(p.subs) == 0 {
		p.discard(DiscardEnded, p.store.clear())
	}
	if p.closing != nil && p.settled() {
		p.finish()
	}
}

// wanted is how many events a source is to produce now: what is unmet, as far as
// somebody wants it or there is room to keep it. What the departed have asked for
// may not run over the buffer.
func (p *producer[T]) wanted() int64 {
	room := max(p.store.limit.capacity-p.store.fresh, 0)
	return min(p.unmet, credit.Add(max(p.open(), 0), int64(room)))
}

// open is what the subscribers want beyond what waits.
func (p *producer[T]) open() int64 {
	return credit.Sub(p.dispatcher.Demand(), int64(p.store.len()))
}

// check holds a dispatcher to what it may give away. Whatever goes wrong there is a
// bug of its author's: it ends the stage, and may not become a consumer's.
func (p *producer[T]) check(d dispatch.Delivery, waiting int) {
	if d.N < 1 || d.N > waiting || len(d.To) == 0 {
		panic(fmt.Sprintf("stage: dispatcher %q gives %d of %d events to %d subscribers",
			p.dispatcher.Kind(), d.N, waiting, len(d.To)))
	}
}

func (p *producer[T]) send(d dispatch.Delivery, b Batch[T]) {
	for _, id := range d.To {
		sub, mine := p.find(id), b
		if sub.keep != nil {
			mine.Events = p.kept(sub, b.Events)
		}
		if len(mine.Events) == 0 {
			continue
		}
		if err := sub.ledger.Send(int64(len(mine.Events))); err != nil {
			panic(fmt.Sprintf("stage: dispatcher %q: %v", p.dispatcher.Kind(), err))
		}
		p.unacked += int64(len(mine.Events))
		p.todo = append(p.todo, order[T]{sub: sub, batch: mine})
	}
	// What a selector has dropped was taken off a subscriber's credit, and is asked for
	// again on its behalf, so that its account is what the consumer thinks it is.
	for _, sub := range p.short {
		p.dispatcher.Ask(sub.id, sub.owed)
		p.asks++
		sub.owed = 0
	}
	p.short = p.short[:0]
}

// kept is the part of events that a subscriber's selector keeps.
func (p *producer[T]) kept(sub *outflow[T], events []T) []T {
	kept := make([]T, 0, len(events))
	for _, e := range events {
		if sub.keep(e) {
			kept = append(kept, e)
		}
	}
	if n := int64(len(events) - len(kept)); n > 0 {
		sub.leftOut += n
		sub.owed = n
		p.short = append(p.short, sub)
	}
	return kept
}

// appetite reports whether a gate may ask for more input: somebody subscribes,
// and wants more than waits or nothing waits. A gate that is stopped and has no
// subscriber holds up nobody: what it makes is given up.
func (p *producer[T]) appetite() bool {
	if p.joined == 0 {
		return p.hurried
	}
	return p.open() > 0 || p.store.len() == 0
}
