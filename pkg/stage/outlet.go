package stage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// outlet is the loop around a producer: a lock, and the doing of what the
// producer says. Whoever brings news (an ask, events, an end) takes the lock and
// carries out what follows; there is no goroutine to hand it to.
//
// So the dispatcher of a user may be called on any stage's goroutine. When it
// panics, its own stage fails and nobody else: unlock sees to that, and is deferred
// wherever the core is called.
//
// The lock is held while receivers are called, so that deliveries keep their
// order. Receivers return at once and call nobody, so this cannot wait for a
// handler nor deadlock, whatever the shape of the network.
type outlet[T any] struct {
	name    *string
	discard func(reason string, count int)

	mu   sync.Mutex
	news sync.Cond // demand, an end, or a reason to look again
	core producer[T]
	// ready is set by the first use: the stage's settings are read then.
	ready     bool
	calls     queue[call] // for the goroutine of a source
	finishing bool        // a source is to end when it has made its calls
	meter     meter       // of the goroutine of a source
	// accumulate, where setup sets it, holds what is asked for until it is forwarded.
	accumulate bool
	// maxAttempts, where setup sets it, is how often an event may come back from a handler
	// that had it, and bury, where it is set, takes what has come back too often.
	maxAttempts int
	bury        func(rest []Returned[T], why error)
	reports     int // that are not made yet
	// lent is the sender that was delivered to last: whoever gives up the lock sends.
	lent Sender
	// changed, where it is set, is told under the lock of each subscriber that arrives
	// or leaves. untold counts those that OnSubscribers has not been told of.
	changed  func(SubscriberChange)
	untold   int
	appetite func()      // called without the lock whenever there is appetite
	crashed  func(error) // called without the lock when the producer has failed
	taps     []*func([]T)
	over     bool // done is closed, or about to be
	done     chan struct{}
	setup    func() (dispatch.Dispatcher[T], Buffer)
}

func newOutlet[T any](name *string, setup func() (dispatch.Dispatcher[T], Buffer)) *outlet[T] {
	o := &outlet[T]{name: name, setup: setup, done: make(chan struct{})}
	o.news.L = &o.mu
	return o
}

// lock takes the lock and reads the settings the first time.
func (o *outlet[T]) lock() {
	o.mu.Lock()
	if o.ready {
		return
	}
	o.ready = true
	d, b := o.setup()
	if d == nil {
		d = dispatch.Demand[T]()
	}
	o.core = newProducer(d, b)
	o.core.maxAttempts = o.maxAttempts
	o.core.holding = o.accumulate
}

// unlock does what the core said, tells those who wait and gives up the lock. A
// panic of the core ends here: it fails the producer, and is returned in err.
func (o *outlet[T]) unlock(err *error) {
	if v := recover(); v != nil {
		failure := newPanicError(v)
		o.core.crash(failure)
		if err != nil {
			*err = failure
		}
	}
	reports := o.flush()
	o.reports += len(reports)
	o.news.Broadcast()
	hungry := o.appetite != nil && o.core.appetite()
	crashed := func(error) {}
	var failure error
	over := o.core.ended && !o.over
	if over {
		o.over = true
		if failure = o.core.failure(); failure != nil && o.crashed != nil {
			crashed = o.crashed
		}
	}
	lent := o.lent
	o.lent = nil
	o.mu.Unlock()
	if lent != nil {
		lent.Send()
	}
	crashed(failure)
	if len(reports) > 0 {
		o.report(reports)
		o.mu.Lock()
		o.reports -= len(reports)
		o.news.Broadcast()
		o.mu.Unlock()
	}
	if over {
		close(o.done) // behind the reports: whoever waits for the end has had them
	}
	if hungry {
		o.appetite()
	}
}

// flush carries out the orders in the order in which they were given. Reports are
// returned: they go to user code, which may do as it likes.
func (o *outlet[T]) flush() (reports []order[T]) {
	if len(o.core.todo) == 0 {
		return nil
	}
	for i := 0; i < len(o.core.todo); i++ {
		t := o.core.todo[i]
		if t.report() {
			reports = append(reports, t)
			continue
		}
		if o.changed != nil && (t.opened || t.ending != nil) {
			o.changed(SubscriberChange{Count: t.joined, Who: t.sub.terms, Left: t.ending})
		}
		if err := t.carryOut(); err != nil {
			o.core.refuse(t.sub, err)
		}
		if t.sub.sender != nil && len(t.batch.Events) > 0 {
			o.lend(t.sub.sender)
		}
	}
	clear(o.core.todo)
	o.core.todo = o.core.todo[:0]
	o.core.store.sweep()
	return reports
}

// carryOut calls the receiver. A panic of it is returned.
func (t *order[T]) carryOut() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanicError(v)
		}
	}()
	switch {
	case t.opened:
		t.sub.receiver.Opened()
	case t.ending != nil:
		t.sub.receiver.Ended(*t.ending)
	default:
		t.sub.receiver.Deliver(t.batch)
	}
	return nil
}

// lend notes that a sender was delivered to. Only the last one is sent for by the
// goroutine that delivers: the others can do so at the same time.
func (o *outlet[T]) lend(s Sender) {
	if o.lent != nil && o.lent != s {
		o.lent.Wake()
	}
	o.lent = s
}

// report tells the user of discards, without the lock; a panic fails the stage. What
// else there is to say is logged.
func (o *outlet[T]) report(reports []order[T]) {
	for _, d := range reports {
		if d.unlike != 0 {
			slog.Warn("subscribers differ in max demand: those who want most are served first",
				"stage", *o.name, "first", d.unlike, "subscriber", d.sub.terms.Stage, "new", d.sub.terms.MaxDemand)
			continue
		}
		if len(d.tired) > 0 && o.bury != nil {
			o.bury(d.tired, d.why)
		}
		if o.discard == nil {
			slog.Warn("events discarded", "stage", *o.name, "reason", d.discard, "count", d.count)
			continue
		}
		err := guard(func() error {
			o.discard(d.discard, d.count)
			return nil
		})
		if err != nil {
			o.lock()
			o.core.crash(err)
			o.unlock(nil)
		}
	}
}

// attach implements Outlet.Attach for a stage.
func (o *outlet[T]) attach(terms Terms, keep func(T) bool, r Receiver[T]) (up Upstream[T], err error) {
	if o == nil {
		return nil, ErrNotMade
	}
	o.lock()
	defer o.unlock(&err)
	if o.untold >= maxCalls && o.core.closing == nil {
		return nil, fmt.Errorf("%w: %d changes of subscribers, for OnSubscribers", ErrBusy, o.untold)
	}
	sub, err := o.core.join(terms, keep, r)
	if err != nil {
		return nil, err
	}
	return &upstream[T]{o: o, sub: sub}, nil
}

// announce lets hook be told of each subscriber that arrives or leaves, by a call that
// post takes, unless it reports false: then nobody makes calls any more. Nothing is left
// out, so it is new subscribers that have to wait when too many calls do.
func (o *outlet[T]) announce(hook func(SubscriberChange), post func(call) bool) {
	if hook == nil {
		return
	}
	o.changed = func(c SubscriberChange) {
		told := post(func(context.Context) error {
			o.mu.Lock()
			o.untold--
			o.mu.Unlock()
			hook(c)
			return nil
		})
		if told {
			o.untold++
		}
	}
}

// emit takes what a handler or a pusher has produced.
func (o *outlet[T]) emit(events []T) (err error) {
	o.lock()
	defer o.unlock(&err)
	o.put(events)
	if o.core.ended {
		return cmp.Or(o.core.closing.Err, ErrEnded)
	}
	return nil
}

// put emits events under the lock.
func (o *outlet[T]) put(events []T) {
	if len(events) == 0 {
		return
	}
	for _, watch := range o.taps {
		(*watch)(events)
	}
	o.core.emit(events)
}

// onCrash lets f be called when the producer fails before its stage does. f is
// called once, without the lock.
func (o *outlet[T]) onCrash(f func(error)) {
	o.lock()
	o.crashed = f
	err := o.core.failure()
	o.mu.Unlock()
	if err != nil {
		f(err)
	}
}

// failure is the error that the producer has failed with, or nil.
func (o *outlet[T]) failure() error {
	o.lock()
	defer o.mu.Unlock()
	return o.core.failure()
}

// hungry reports whether a gate may ask for more input.
func (o *outlet[T]) hungry() bool {
	o.lock()
	defer o.mu.Unlock()
	return o.core.appetite()
}

// end closes the producer, and wakes up whoever waits for demand.
func (o *outlet[T]) end(e Ending) {
	o.lock()
	defer o.unlock(nil)
	o.meter.turn(off)
	o.core.close(e)
}

// reported waits until the user has been told of all discards so far.
func (o *outlet[T]) reported() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.reports > 0 {
		o.news.Wait()
	}
}

// hurry says that the stage is stopped.
func (o *outlet[T]) hurry() {
	o.lock()
	defer o.unlock(nil)
	o.core.hurry()
}

// duty is what a source is to do next: to make a call, or to produce as many events as
// are wanted.
type duty struct {
	call   call
	demand int64
	asks   uint64
}

// await waits until the source has something to do: a call, or events are wanted and
// more has been asked since seen where seen is not 0. It reports false when the
// producer closes or stopped returns true.
func (o *outlet[T]) await(seen uint64, stopped func() bool) (d duty, ok bool) {
	o.lock()
	defer o.mu.Unlock()
	for {
		if o.core.closing != nil || stopped() {
			return duty{}, false
		}
		if o.calls.len() > 0 {
			d.call = o.calls.take(1)[0]
			o.calls.sweep()
			o.meter.turn(busy)
			return d, true
		}
		if o.finishing {
			return duty{}, false
		}
		n := o.core.wanted()
		switch {
		case n == 0:
			o.meter.turn(blocked)
		case seen == 0 || o.core.asks != seen:
			o.meter.turn(busy)
			return duty{demand: n, asks: o.core.asks}, true
		default:
			o.meter.turn(idle)
		}
		o.news.Wait()
	}
}

// post lets the stage's goroutine make a call.
func (o *outlet[T]) post(f call) error {
	if o == nil {
		return ErrNotMade
	}
	o.lock()
	defer o.mu.Unlock()
	switch {
	case o.ends():
		return ErrEnded
	case o.calls.len() >= maxCalls:
		return ErrBusy
	}
	o.calls.push(f)
	o.news.Broadcast()
	return nil
}

// drain waits until the producer has ended.
//
// An end that came by itself is as patient as its consumers: what waits is given
// up only when nobody has subscribed for as long as patience. When the stage is
// stopped it is given up as soon as nobody subscribes, and when cut is closed in any
// case.
func (o *outlet[T]) drain(patience time.Duration, cut <-chan struct{}) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-o.done:
			return
		case <-cut:
			o.abandon()
		case <-timer.C:
			if o.lonely() {
				o.abandon()
			}
			timer.Reset(patience)
		}
	}
}

func (o *outlet[T]) lonely() bool {
	o.lock()
	defer o.mu.Unlock()
	return o.core.joined == 0
}

func (o *outlet[T]) abandon() {
	o.lock()
	defer o.unlock(nil)
	o.core.abandon()
}
