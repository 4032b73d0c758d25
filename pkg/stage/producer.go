package stage

import (
	"fmt"
	"math"
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
// produced: a subscriber that leaves does not take back what the source was told,
// so the next one is served by it and the source is not told again. So joining and
// leaving neither inflates demand nor loses it. Only of an endless ask nothing
// remains: what the others want is counted anew.
type producer[T any] struct {
	dispatcher dispatch.Dispatcher[T]
	store      store[T]
	subs       []*outflow[T] // in the order in which they joined
	joined     int           // those that have not left
	lastID     dispatch.ID
	unmet      int64
	departed   int64  // the part of unmet that only those want who have left
	asks       uint64 // counts the asks, and the times that unmet has grown without one
	closing    *Ending
	hurried    bool
	ended      bool
	produced   int64
	discarded  map[string]int64
	// maxAttempts is how often an event may come back from a handler that had it; 0 is
	// without limit.
	maxAttempts int
	loose       int // events that are on their way into the store or out of it
	// holding: asks are kept in held until forward.
	holding bool
	held    []heldAsk[T]
	short   []*outflow[T] // those of whom events were left out just now
	// maxDemand is that of the first subscriber, which the others are compared with.
	maxDemand int64

	todo []order[T]
}

// outflow is one subscription, as its producer holds it.
type outflow[T any] struct {
	id       dispatch.ID
	terms    Terms
	receiver Receiver[T]
	// keep, where it is set, says which events it gets.
	keep   func(T) bool
	ledger credit.Ledger
	done   credit.Ranges // processed out of order, above what is acknowledged
	// allotted is the credit that the dispatcher was told of in all. It stays behind
	// what was asked for where too much is not acknowledged.
	allotted int64
	leftOut  int64 // by keep
	owed     int64 // left out, and not asked for again yet
	// left: it gets nothing more, and what it has not acknowledged is waited for.
	left bool
}

// order is one thing to do: tell a subscriber that it was accepted, hand it a
// batch, tell it that it has ended, or report discarded events or terms that do not
// go together. The events of a batch are valid until the next call of a method of the
// producer.
type order[T any] struct {
	sub     *outflow[T]
	opened  bool
	batch   Batch[T]
	ending  *Ending
	joined  int // how many subscribers there are then
	discard string
	count   int
	unlike  int64         // the max demand that the one of sub differs from
	tired   []Returned[T] // what is discarded, where that has come back too often, and why
	why     error
}

// report says that the order is something to tell the user.
func (t *order[T]) report() bool { return t.discard != "" || t.unlike != 0 }

// Names for the reasons of discards.
const (
	DiscardOverflow   = "buffer overflow"
	DiscardEnded      = "stage ended"
	DiscardFailed     = "stage failed"
	DiscardAtMostOnce = "at most once"
	DiscardCopy       = "broadcast copy"
	DiscardKept       = "not given back"
	DiscardExhausted  = "attempts exhausted"
	DiscardHandler    = "handler failed"
)

func newProducer[T any](d dispatch.Dispatcher[T], buffer Buffer) producer[T] {
	return producer[T]{
		dispatcher: d,
		store:      newStore[T](max(d.Lanes(), 1), buffer),
		discarded:  map[string]int64{},
	}
}

// join takes in a subscriber without credit.
func (p *producer[T]) join(terms Terms, keep func(T) bool, r Receiver[T]) (*outflow[T], error) {
	if p.ended {
		return nil, &EndedError{Ending: *p.closing}
	}
	id := p.lastID + 1
	if err := p.dispatcher.Join(id, dispatch.Terms{Partition: terms.Partition, Selector: keep != nil}); err != nil {
		return nil, err
	}
	p.lastID = id
	sub := &outflow[T]{id: id, terms: terms, keep: keep, receiver: r}
	p.subs = append(p.subs, sub)
	p.joined++
	p.todo = append(p.todo, order[T]{sub: sub, opened: true, joined: p.joined})
	p.compare(sub)
	p.settle(0)
	return sub, nil
}

// compare reports a subscriber with another max demand than the first one: where each
// event goes to whoever wants most, it gets more or less than its share for that.
func (p *producer[T]) compare(sub *outflow[T]) {
	n := sub.terms.MaxDemand
	switch {
	case n == 0 || p.dispatcher.Kind() != "demand":
	case p.maxDemand == 0:
		p.maxDemand = n
	case p.maxDemand != n:
		p.todo = append(p.todo, order[T]{sub: sub, unlike: p.maxDemand})
	}
}

// ask acknowledges, and then adds demand. An ask that crosses the end changes
// nothing.
func (p *producer[T]) ask(sub *outflow[T], n, acked int64, done []Range) error {
	if err := p.book(sub, acked, done); err != nil {
		return err
	}
	if !sub.left {
		if n < 1 {
			return credit.AskNotPositive
		}
		if p.holding {
			p.hold(sub, n)
		} else {
			p.grant(sub, n)
		}
	}
	p.settle(0)
	return nil
}

// grant books n more, at least 1, that a subscriber may be sent.
func (p *producer[T]) grant(sub *outflow[T], n int64) {
	_ = sub.ledger.Ask(n)
	p.allot(sub)
	p.asks++
}

// maxUnacked is how many events a subscription may have that are not acknowledged,
// however much it has asked for: so that memory is bounded also where demand is not.
const maxUnacked = 100_000

// allot tells the dispatcher of what a subscriber has asked for, as far as what it has
// not acknowledged allows.
func (p *producer[T]) allot(sub *outflow[T]) {
	if sub.left {
		return
	}
	processed := sub.ledger.Acked() + sub.done.Count()
	n := min(sub.ledger.Granted(), processed+maxUnacked) - sub.allotted
	if n > 0 {
		sub.allotted += n
		p.dispatcher.Ask(sub.id, n)
	}
}

// heldAsk is an ask that the dispatcher has not been told of.
type heldAsk[T any] struct {
	sub *outflow[T]
	n   int64
}

// maxHeld is how many asks are held one by one. Then an ask joins the last one that is
// held for its subscriber.
const maxHeld = 1000

// hold keeps an ask for forward.
func (p *producer[T]) hold(sub *outflow[T], n int64) {
	if len(p.held) >= maxHeld {
		for i := range slices.Backward(p.held) {
			if h := &p.held[i]; h.sub == sub {
				h.n = credit.Add(h.n, n)
				return
			}
		}
	}
	p.held = append(p.held, heldAsk[T]{sub, n})
}

// forward lets the asks pass that were held, one by one in their order, and all that
// follow.
func (p *producer[T]) forward() {
	held := p.held
	p.holding, p.held = false, nil
	for _, h := range held {
		p.grant(h.sub, h.n)
		p.settle(0)
	}
}

// unhold forgets the asks that are held for a subscriber, and returns their sum.
func (p *producer[T]) unhold(sub *outflow[T]) (n int64) {
	p.held = slices.DeleteFunc(p.held, func(h heldAsk[T]) bool {
		if h.sub == sub {
			n = credit.Add(n, h.n)
		}
		return h.sub == sub
	})
	return n
}

// heldOf is the sum of the asks that are held for a subscriber.
func (p *producer[T]) heldOf(sub *outflow[T]) (n int64) {
	for _, h := range p.held {
		if h.sub == sub {
			n = credit.Add(n, h.n)
		}
	}
	return n
}

// room is how many events, whichever they are, may be emitted now without one being
// given up. Where there are lanes nobody can say whether an event is for one that
// wants it: so only the buffer counts.
func (p *producer[T]) room() int {
	room := int64(max(p.store.limit.capacity-p.store.fresh, 0))
	if p.dispatcher.Lanes() == 1 {
		room = credit.Add(room, max(p.open(), 0))
	}
	return int(min(room, math.MaxInt32))
}

// ack acknowledges.
func (p *producer[T]) ack(sub *outflow[T], acked int64, done []Range) error {
	if err := p.book(sub, acked, done); err != nil {
		return err
	}
	p.settle(0)
	return nil
}

// book notes what is acknowledged. What is so already is no news: a consumer's asks
// come from several goroutines, and may overtake each other.
func (p *producer[T]) book(sub *outflow[T], acked int64, done []Range) error {
	for _, r := range done {
		if r.Last > sub.ledger.Sent() || r.First > r.Last {
			return credit.AckBeyondSent
		}
		if r.Last > sub.ledger.Acked() {
			sub.done.Add(max(r.First, sub.ledger.Acked()+1), r.Last)
		}
	}
	if acked < sub.ledger.Acked() {
		return nil
	}
	if _, err := sub.ledger.Ack(acked); err != nil {
		return err
	}
	// Ranges that touch what is acknowledged are acknowledged too.
	_, _ = sub.ledger.Ack(sub.done.Advance(acked))
	if sub.left && sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
	p.allot(sub)
	return nil
}

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
	sub.ledger.Unsend(int64(n))
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

// crash ends the producer at once: the code of a user that it depends on has
// panicked, and is not called again.
func (p *producer[T]) crash(err error) {
	if p.ended {
		return
	}
	p.closing = &Ending{Reason: Failed, Err: err}
	p.discard(DiscardFailed, p.loose+p.store.clear())
	p.finish()
}

// failure is the error that the producer has failed with, or nil.
func (p *producer[T]) failure() error {
	if p.closing == nil || p.closing.Reason != Failed {
		return nil
	}
	return p.closing.Err
}

// hurry says that the stage is stopped: what waits is given up as soon as nobody is
// left that could take it. Asks are not held any longer: it was for later, and there is
// none.
func (p *producer[T]) hurry() {
	p.hurried = true
	p.forward()
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
	for _, sub := range p.subs {
		if !sub.left {
			p.joined--
			p.todo = append(p.todo, order[T]{sub: sub, ending: p.closing, joined: p.joined})
		}
		sub.left = true
	}
	p.subs, p.held, p.joined, p.unmet, p.departed = nil, nil, 0, 0, 0
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
// and wants more than waits or nothing waits. A gate that is stopped and has no
// subscriber holds up nobody: what it makes is given up.
func (p *producer[T]) appetite() bool {
	if p.joined == 0 {
		return p.hurried
	}
	return p.open() > 0 || p.store.len() == 0
}
