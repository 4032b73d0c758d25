package stage

import (
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
	ready    bool
	appetite func() // called without the lock whenever there is appetite
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
}

// unlock does what the core said, tells those who wait and gives up the lock.
func (o *outlet[T]) unlock() {
	reports := o.flush()
	o.news.Broadcast()
	hungry := o.appetite != nil && o.core.appetite()
	if o.core.ended && !isClosed(o.done) {
		close(o.done)
	}
	o.mu.Unlock()
	for _, r := range reports {
		o.report(r.discard, r.count)
	}
	if hungry {
		o.appetite()
	}
}

// flush carries out the orders in the order in which they were given. Discards
// are returned: they are reported to user code, which may do as it likes.
func (o *outlet[T]) flush() (reports []order[T]) {
	for i := range o.core.todo {
		switch t := &o.core.todo[i]; {
		case t.discard != "":
			reports = append(reports, *t)
		case t.ending != nil:
			t.sub.receiver.Ended(*t.ending)
		default:
			t.sub.receiver.Deliver(t.batch)
		}
	}
	clear(o.core.todo)
	o.core.todo = o.core.todo[:0]
	return reports
}

func (o *outlet[T]) report(reason string, count int) {
	if o.discard != nil {
		o.discard(reason, count)
		return
	}
	slog.Warn("events discarded", "stage", *o.name, "reason", reason, "count", count)
}

// attach implements Outlet.Attach for a stage.
func (o *outlet[T]) attach(terms Terms, r Receiver[T]) (Upstream[T], error) {
	o.lock()
	defer o.unlock()
	sub, err := o.core.join(terms, r)
	if err != nil {
		return nil, err
	}
	r.Opened()
	return &upstream[T]{o: o, sub: sub}, nil
}

// emit takes what a handler or a pusher has produced. A panic of the stage's own
// dispatcher or partition function is returned.
func (o *outlet[T]) emit(events []T) (err error) {
	o.lock()
	defer o.unlock()
	defer func() {
		if v := recover(); v != nil {
			err = newPanicError(v)
		}
	}()
	if o.core.ended {
		return ErrEnded
	}
	o.core.emit(events)
	return nil
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
	o.core.close(e)
	o.unlock()
}

// await waits until the source is to produce: there is unmet demand, and more has
// been asked since seen where seen is not 0. It reports false when the producer
// closes or stopped returns true.
func (o *outlet[T]) await(seen uint64, stopped func() bool) (demand int64, asks uint64, ok bool) {
	o.lock()
	defer o.mu.Unlock()
	for {
		if o.core.closing != nil || stopped() {
			return 0, 0, false
		}
		if o.core.unmet > 0 && (seen == 0 || o.core.asks != seen) {
			return o.core.unmet, o.core.asks, true
		}
		o.news.Wait()
	}
}

// wake lets await look again.
func (o *outlet[T]) wake() {
	o.mu.Lock()
	o.news.Broadcast()
	o.mu.Unlock()
}

// drain waits until the producer has ended.
//
// An end that came by itself is as patient as its consumers: what waits is given
// up only when nobody has subscribed for as long as patience. From stopped on it
// is given up as soon as nobody subscribes, and when cut is closed in any case.
func (o *outlet[T]) drain(patience time.Duration, stopped, cut <-chan struct{}) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-o.done:
			return
		case <-stopped:
			stopped = nil
			o.lock()
			o.core.hurry()
			o.unlock()
		case <-cut:
			o.abandon()
		case <-timer.C:
			o.lock()
			lonely := o.core.joined == 0
			o.unlock()
			if lonely {
				o.abandon()
			}
			timer.Reset(patience)
		}
	}
}

func (o *outlet[T]) abandon() {
	o.lock()
	o.core.abandon()
	o.unlock()
}

// inspect adds what the outlet knows to i.
func (o *outlet[T]) inspect(i *Info) {
	o.lock()
	defer o.mu.Unlock()
	i.Dispatcher, i.Lanes = o.core.dispatcher.Kind(), o.core.dispatcher.Lanes()
	i.Out, i.Buffered, i.Unmet = o.core.produced, o.core.store.len(), o.core.unmet
	i.Discarded = make(map[string]int64, len(o.core.discarded))
	for reason, n := range o.core.discarded {
		i.Discarded[reason] = n
	}
	for _, s := range o.core.subs {
		i.Subscribers = append(i.Subscribers, SubscriptionInfo{
			Outlet: *o.name, Terms: s.terms, State: s.state(&o.core),
			Granted: s.ledger.Granted(), Sent: s.ledger.Sent(), Acked: s.ledger.Acked(),
		})
	}
}

// state is what an operator sees of a subscription from the producer's side.
func (s *outflow[T]) state(p *producer[T]) string {
	switch {
	case p.closing != nil:
		return "draining"
	case s.ledger.Credit() == 0:
		return "no-demand"
	case p.store.len() == 0:
		return "no-events"
	}
	return "flowing"
}

// upstream is a subscription to an outlet of this process, as its consumer holds
// it.
type upstream[T any] struct {
	o   *outlet[T]
	sub *outflow[T]
}

func (u *upstream[T]) Ask(n, acked int64) error {
	u.o.lock()
	defer u.o.unlock()
	return u.guard(u.o.core.ask(u.sub, n, acked))
}

func (u *upstream[T]) Ack(acked int64) error {
	u.o.lock()
	defer u.o.unlock()
	return u.guard(u.o.core.ack(u.sub, acked))
}

// guard ends a subscription whose consumer broke a rule.
func (u *upstream[T]) guard(err error) error {
	if err != nil {
		u.o.core.fail(u.sub, Ending{Reason: Refused, Err: err}, nil)
	}
	return err
}

func (u *upstream[T]) Cancel(c Cancel[T]) {
	u.o.lock()
	defer u.o.unlock()
	if u.guard(u.o.core.ack(u.sub, c.Acked)) != nil {
		return
	}
	ending := Ending{Reason: Cancelled}
	if c.Reason != "" {
		ending.Err = fmt.Errorf("cancelled: %s", c.Reason)
	}
	if c.Drain {
		u.o.core.leave(u.sub, ending)
	} else {
		u.o.core.fail(u.sub, ending, c.Rest)
	}
}

func (u *upstream[T]) Revoke() int64 {
	u.o.lock()
	defer u.o.unlock()
	return u.o.core.revoke(u.sub)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
