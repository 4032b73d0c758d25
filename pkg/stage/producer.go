package stage

import (
	"fmt"
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/dispatch"
)

// producer is the pure half of an outlet: who subscribes, what waits, what was
// asked for and is not met. Its methods change it and say what to do next in
// todo; they call nobody. It has one owner at a time.
//
// unmet is what the events are still to be produced for. It grows when the
// subscribers together want more than waits, and falls by one with each event
// produced, and by nothing else: a subscriber that leaves does not take back what
// the source was told, so the next one is served by it and the source is not told
// again. So joining and leaving neither inflates demand nor loses it.
type producer[T any] struct {
	dispatcher dispatch.Dispatcher[T]
	store      store[T]
	subs       []*outflow[T] // in the order in which they joined
	joined     int           // those that have not left
	lastID     dispatch.ID
	unmet      int64
	asks       uint64 // counts the times that unmet has grown
	closing    *Ending
	hurried    bool
	ended      bool
	produced   int64
	discarded  map[string]int64

	todo []order[T]
}

// outflow is one subscription, as its producer holds it.
type outflow[T any] struct {
	id       dispatch.ID
	terms    Terms
	receiver Receiver[T]
	ledger   credit.Ledger
	// left: it gets nothing more, and what it has not acknowledged is waited for.
	left bool
	// gone: it is over.
	gone bool
}

// order is one thing to do: hand a batch to a subscriber, tell it that it has
// ended, or report discarded events. The events of a batch are valid until the
// next call of a method of the producer.
type order[T any] struct {
	sub     *outflow[T]
	batch   Batch[T]
	ending  *Ending
	discard string
	count   int
}

// Names for the reasons of discards.
const (
	DiscardOverflow   = "buffer overflow"
	DiscardEnded      = "stage ended"
	DiscardFailed     = "stage failed"
	DiscardAtMostOnce = "at most once"
	DiscardCopy       = "broadcast copy"
)

func newProducer[T any](d dispatch.Dispatcher[T], buffer Buffer) producer[T] {
	return producer[T]{
		dispatcher: d,
		store:      newStore[T](d.Lanes(), buffer),
		discarded:  map[string]int64{},
	}
}

// join takes in a subscriber without credit.
func (p *producer[T]) join(terms Terms, r Receiver[T]) (*outflow[T], error) {
	if p.ended {
		return nil, &EndedError{Ending: *p.closing}
	}
	id := p.lastID + 1
	if err := p.dispatcher.Join(id, terms.dispatch()); err != nil {
		return nil, err
	}
	p.lastID = id
	sub := &outflow[T]{id: id, terms: terms, receiver: r}
	p.subs = append(p.subs, sub)
	p.joined++
	p.settle(0)
	return sub, nil
}

// ask acknowledges, and then adds demand. An ask that crosses the end changes
// nothing.
func (p *producer[T]) ask(sub *outflow[T], n, acked int64) error {
	if err := p.ack(sub, acked); err != nil || sub.left {
		return err
	}
	if err := sub.ledger.Ask(n); err != nil {
		return err
	}
	p.dispatcher.Ask(sub.id, n)
	p.settle(0)
	return nil
}

// ack acknowledges. What is acknowledged already is no news: a consumer's asks come
// from several goroutines, and may overtake each other.
func (p *producer[T]) ack(sub *outflow[T], acked int64) error {
	if sub.gone || acked < sub.ledger.Acked() {
		return nil
	}
	if _, err := sub.ledger.Ack(acked); err != nil {
		return err
	}
	if sub.left && sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
	p.settle(0)
	return nil
}

// revoke takes back the credit of a subscriber.
func (p *producer[T]) revoke(sub *outflow[T]) int64 {
	if sub.left {
		return 0
	}
	n := p.dispatcher.Revoke(sub.id)
	sub.ledger.Revoke(n)
	p.settle(0)
	return n
}

// leave ends a subscription from the consumer's side. What was sent is processed
// still; a failure may follow.
func (p *producer[T]) leave(sub *outflow[T], ending Ending) {
	if sub.left {
		return
	}
	p.part(sub)
	p.todo = append(p.todo, order[T]{sub: sub, ending: &ending})
	p.settle(0)
}

// fail ends a subscription from the consumer's side, and takes back what was not
// processed. A broadcast's copies cannot go to anybody else: they are discarded.
func (p *producer[T]) fail(sub *outflow[T], ending Ending, rest []Returned[T]) {
	if sub.gone {
		p.discard(DiscardEnded, len(rest))
		return
	}
	if !sub.left {
		p.part(sub)
		p.todo = append(p.todo, order[T]{sub: sub, ending: &ending})
	}
	p.drop(sub)
	switch {
	case sub.terms.AtMostOnce:
		p.discard(DiscardAtMostOnce, len(rest))
	case p.ended:
		p.discard(DiscardEnded, len(rest))
	case p.dispatcher.Kind() == "broadcast":
		p.discard(DiscardCopy, len(rest))
	default:
		p.putBack(rest)
	}
	p.settle(0)
}

// putBack returns events to the front of their lanes, in order.
func (p *producer[T]) putBack(rest []Returned[T]) {
	if p.dispatcher.Lanes() == 1 {
		p.store.putBack(0, rest...)
		return
	}
	lanes := make(map[int][]Returned[T])
	for _, r := range rest {
		l := p.dispatcher.Lane(r.Event)
		lanes[l] = append(lanes[l], r)
	}
	for l, events := range lanes {
		p.store.putBack(l, events...)
	}
}

// emit takes events that were produced. The slice stays the caller's, and must
// stay as it is until todo has been done.
func (p *producer[T]) emit(events []T) {
	if len(events) == 0 {
		return
	}
	p.produced += int64(len(events))
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
		p.send(d, Batch[T]{Events: rest[:d.N:d.N]})
		rest = rest[d.N:]
	}
	p.store.put(0, rest...)
	p.settle(len(events))
}

// storeAll puts events into their lanes.
func (p *producer[T]) storeAll(events []T) {
	if p.dispatcher.Lanes() == 1 {
		p.store.put(0, events...)
		return
	}
	for _, e := range events {
		p.store.put(p.dispatcher.Lane(e), e)
	}
}

// close lets the producer come to its end: what waits is served first, and what
// was sent is acknowledged first. A failed producer does not wait. The first
// ending stands.
func (p *producer[T]) close(ending Ending) {
	if p.closing != nil {
		return
	}
	p.closing = &ending
	if ending.Reason == Failed {
		p.discard(DiscardFailed, p.store.clear())
	}
	p.settle(0)
}

// hurry lets a closing producer end as soon as nobody is left that could take what
// waits.
func (p *producer[T]) hurry() {
	p.hurried = true
	p.settle(0)
}

// abandon gives up what still waits, so that a closing producer ends now.
func (p *producer[T]) abandon() {
	if p.ended || p.closing == nil {
		return
	}
	p.discard(DiscardEnded, p.store.clear())
	p.finish()
}

// settle serves what waits, gives up what is over the limit, and draws the
// conclusions. produced is the number of events that have just been produced.
func (p *producer[T]) settle(produced int) {
	for p.store.len() > 0 {
		d, ok := p.dispatcher.Next(p.store.waiting)
		if !ok {
			break
		}
		for left := d.N; left > 0; {
			b := p.store.take(d.Lane, left)
			left -= len(b.Events)
			p.send(d, b)
		}
	}
	p.discard(DiscardOverflow, p.store.trim())
	before := p.unmet
	p.unmet = max(p.unmet-int64(produced), p.open(), 0)
	if p.unmet > before {
		p.asks++
	}
	if p.closing == nil || p.ended {
		return
	}
	if p.hurried && len(p.subs) == 0 {
		p.discard(DiscardEnded, p.store.clear())
	}
	if p.settled() {
		p.finish()
	}
}

// open is what the subscribers want beyond what waits.
func (p *producer[T]) open() int64 {
	return credit.Sub(p.dispatcher.Demand(), int64(p.store.len()))
}

// settled reports whether nothing is left that a closing producer waits for.
func (p *producer[T]) settled() bool {
	if p.closing.Reason == Failed {
		return true
	}
	return p.store.len() == 0 && !slices.ContainsFunc(p.subs, func(s *outflow[T]) bool {
		return s.ledger.Unacked() > 0
	})
}

// finish tells every subscriber that it is over.
func (p *producer[T]) finish() {
	p.ended = true
	for _, sub := range slices.Clone(p.subs) {
		if !sub.left {
			p.part(sub)
			p.todo = append(p.todo, order[T]{sub: sub, ending: p.closing})
		}
		p.drop(sub)
	}
}

func (p *producer[T]) send(d dispatch.Delivery, b Batch[T]) {
	for _, id := range d.To {
		sub := p.find(id)
		if err := sub.ledger.Send(int64(len(b.Events))); err != nil {
			// A dispatcher that gives away more than was asked for is a bug of its
			// author's, and may not become the consumer's.
			panic(fmt.Sprintf("stage: dispatcher %q: %v", p.dispatcher.Kind(), err))
		}
		p.todo = append(p.todo, order[T]{sub: sub, batch: b})
	}
}

func (p *producer[T]) find(id dispatch.ID) *outflow[T] {
	// IDs grow, so subs is sorted by them.
	i, ok := slices.BinarySearchFunc(p.subs, id, func(s *outflow[T], id dispatch.ID) int {
		return int(int64(s.id) - int64(id))
	})
	if !ok {
		panic(fmt.Sprintf("stage: dispatcher %q named a subscriber that has left", p.dispatcher.Kind()))
	}
	return p.subs[i]
}

// part takes a subscriber out of the dispatch.
func (p *producer[T]) part(sub *outflow[T]) {
	sub.left = true
	p.joined--
	p.dispatcher.Leave(sub.id)
	if sub.ledger.Granted() == credit.Unbounded {
		// Nobody wants the rest of an endless ask: what others want is counted anew.
		p.unmet = 0
	}
	if sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
}

// drop forgets a subscriber.
func (p *producer[T]) drop(sub *outflow[T]) {
	sub.gone = true
	p.subs = slices.DeleteFunc(p.subs, func(s *outflow[T]) bool { return s == sub })
}

func (p *producer[T]) discard(reason string, n int) {
	if n == 0 {
		return
	}
	p.discarded[reason] += int64(n)
	p.todo = append(p.todo, order[T]{discard: reason, count: n})
}

// appetite reports whether a gate may ask for more input: somebody subscribes,
// and wants more than waits or nothing waits.
func (p *producer[T]) appetite() bool {
	return p.joined > 0 && (p.open() > 0 || p.store.len() == 0)
}
