package stage

import (
	"cmp"
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
	unacked    int64         // what those in subs have not acknowledged
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
	sender   Sender // the receiver, where it is one; or nil
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
	// dropped: it is not in subs any more.
	dropped bool
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
	sub.sender, _ = r.(Sender)
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
	before := sub.ledger.Unacked()
	if _, err := sub.ledger.Ack(acked); err != nil {
		return err
	}
	// Ranges that touch what is acknowledged are acknowledged too.
	_, _ = sub.ledger.Ack(sub.done.Advance(acked))
	p.tally(sub, before)
	if sub.left && sub.ledger.Unacked() == 0 {
		p.drop(sub)
	}
	p.allot(sub)
	return nil
}

// tally books that what sub has not acknowledged is not before any more.
func (p *producer[T]) tally(sub *outflow[T], before int64) {
	if !sub.dropped {
		p.unacked += sub.ledger.Unacked() - before
	}
}

// at is where a subscriber is in subs.
func (p *producer[T]) at(id dispatch.ID) (i int, ok bool) {
	// IDs grow, so subs is sorted by them.
	return slices.BinarySearchFunc(p.subs, id, func(s *outflow[T], id dispatch.ID) int { return cmp.Compare(s.id, id) })
}

func (p *producer[T]) find(id dispatch.ID) *outflow[T] {
	i, ok := p.at(id)
	if !ok {
		panic(fmt.Sprintf("stage: dispatcher %q named a subscriber that has left", p.dispatcher.Kind()))
	}
	return p.subs[i]
}
