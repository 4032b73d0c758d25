package stage

import (
	"context"
	"sync"

	"github.com/sluicenet/sluice/internal/credit"
)

// Subscription is one live connection from an outlet to an inlet. It ends once,
// with an [Ending]. Its methods may be called from any goroutine, also from inside
// a handler: none of them waits for one, Ready excepted.
type Subscription struct {
	mu     sync.Mutex
	edge   edgeOf
	open   bool
	ready  chan struct{}
	done   chan struct{}
	ending Ending
}

// edgeOf is what a subscription is made of, whatever the type of its events.
type edgeOf interface {
	ask(n int64) error
	cancel()
	info() SubscriptionInfo
}

func newSubscription() *Subscription {
	return &Subscription{ready: make(chan struct{}), done: make(chan struct{})}
}

// Ask adds n, at least 1, to the events that may be sent, whatever the demand mode.
// It returns ErrAskNotPositive for less, ErrNotBegun before the consumer's stage runs,
// and ErrEnded when the subscription has ended.
func (s *Subscription) Ask(n int) error {
	if n < 1 {
		return ErrAskNotPositive
	}
	e := s.current()
	switch {
	case e == nil && s.Ending().Reason == 0:
		return ErrNotBegun
	case e == nil:
		return ErrEnded
	}
	return e.ask(int64(n))
}

// Cancel ends the subscription. What was sent is processed first; then it is over,
// with the reason Cancelled. It reports whether there was something to cancel.
func (s *Subscription) Cancel() bool {
	e := s.current()
	if e == nil {
		return false
	}
	e.cancel()
	return true
}

// Ready waits until the producer has accepted the subscription. It returns the
// error with which it ended instead, or the cause of ctx.
func (s *Subscription) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		if isClosed(s.ready) {
			return nil
		}
		if err := s.Ending().Err; err != nil {
			return err
		}
		return ErrEnded
	case <-ctx.Done():
		if isClosed(s.ready) {
			return nil
		}
		return context.Cause(ctx)
	}
}

// Done is closed when the subscription has ended and everything that arrived
// before was processed.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Ending says how the subscription ended; its Reason is 0 while it lives.
func (s *Subscription) Ending() Ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Info is a snapshot of the consumer's side. One that is declared is waiting, and of one
// that has ended it is the last snapshot.
func (s *Subscription) Info() SubscriptionInfo {
	s.mu.Lock()
	e, ended := s.edge, s.ending.Reason != 0
	s.mu.Unlock()
	i := SubscriptionInfo{State: "waiting"}
	if e != nil {
		i = e.info()
	}
	if ended {
		i.State = "ended"
	}
	return i
}

// current returns the live edge, or nil.
func (s *Subscription) current() edgeOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.Reason != 0 {
		return nil
	}
	return s.edge
}

func (s *Subscription) bind(e edgeOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge = e
}

// opened books that the producer has accepted, and reports whether that is news.
func (s *Subscription) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || s.ending.Reason != 0 {
		return false
	}
	s.open = true
	close(s.ready)
	return true
}

// withdraw ends the subscription, unless the producer has accepted it.
func (s *Subscription) withdraw() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		return false
	}
	if s.ending.Reason == 0 {
		s.ending = Ending{Reason: Cancelled}
		close(s.done)
	}
	return true
}

func (s *Subscription) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *Subscription) ended(e Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending.Reason == 0 {
		s.ending = e
		close(s.done)
	}
}

// edge is a subscription of an inlet.
type edge[T any] struct {
	l  *inlet[T]
	in *inflow[T]
}

func (e *edge[T]) ask(n int64) error {
	e.l.mu.Lock()
	if e.in.leaving || e.in.ending != nil || e.l.closed {
		e.l.mu.Unlock()
		return ErrEnded
	}
	if e.l.adapt != nil {
		e.l.mu.Unlock()
		return ErrUnsupportedDemandMode
	}
	if w := e.in.whole; w != nil {
		w.pool = credit.Add(w.pool, n)
		e.l.mu.Unlock()
		e.l.share(e.in)
		return nil
	}
	e.in.window.Ask(n)
	up, acked := e.in.up, e.in.window.Acked()
	if up == nil {
		e.in.early = credit.Add(e.in.early, n)
	}
	e.l.mu.Unlock()
	if up == nil {
		return nil
	}
	return up.Ask(n, acked)
}

func (e *edge[T]) cancel() {
	e.l.mu.Lock()
	if e.in.leaving || e.in.ending != nil || e.l.closed {
		e.l.mu.Unlock()
		return
	}
	e.l.news.Signal() // it may wait to try something again
	all := []*inflow[T]{e.in}
	if e.in.whole != nil {
		all = append(all, e.in.whole.members...)
	}
	var ups []Upstream[T]
	var cancels []Cancel[T]
	for _, in := range all {
		in.leaving = true
		if in.up != nil {
			acked, done := in.progress()
			ups, cancels = append(ups, in.up), append(cancels, Cancel[T]{Drain: true, Acked: acked, Done: done})
		}
	}
	e.l.mu.Unlock()
	for i, up := range ups {
		up.Cancel(cancels[i])
	}
}

func (e *edge[T]) info() SubscriptionInfo {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	return e.in.info()
}
