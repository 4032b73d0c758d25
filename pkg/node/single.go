package node

import (
	"sync"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
)

// single is a subscription to an outlet of the network for a receiver that knows one
// producer only: it goes to one publisher, and is over with that.
type single[T any] struct {
	to stage.Receiver[T]

	mu     sync.Mutex
	whole  stage.Upstream[T]
	up     stage.Upstream[T] // the publisher, or nil
	asked  int64             // for the next one, while none has accepted
	opened bool
	over   bool
}

var (
	_ stage.Members[int]  = (*single[int])(nil)
	_ stage.Receiver[int] = (*single[int])(nil)
	_ stage.Upstream[int] = (*single[int])(nil)
)

// Attach implements stage.Outlet for those who know one producer only: the
// subscription goes to one publisher, as with [One], and ends with it.
func (r *remote[T]) Attach(terms stage.Terms, to stage.Receiver[T]) (stage.Upstream[T], error) {
	s := &single[T]{to: to}
	alone := *r
	alone.one = true
	whole, err := alone.AttachAll(terms, s)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = whole
	return s, nil
}

// Join implements stage.Members.
func (s *single[T]) Join(_ stage.Member, up stage.Upstream[T]) (stage.Receiver[T], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened || s.over || s.up != nil {
		return nil, false
	}
	s.up = up
	if s.asked > 0 {
		_ = up.Ask(s.asked, 0)
	}
	return s, true
}

// Opened implements stage.Receiver.
func (s *single[T]) Opened() {
	s.mu.Lock()
	again := s.opened
	s.opened = true
	s.mu.Unlock()
	if !again {
		s.to.Opened()
	}
}

// Deliver implements stage.Receiver.
func (s *single[T]) Deliver(b stage.Batch[T]) { s.to.Deliver(b) }

// Ended implements stage.Receiver, for the publisher, and stage.Members, for the whole.
// One that has not accepted is followed by another one, or by the end of the whole.
func (s *single[T]) Ended(e stage.Ending) {
	s.mu.Lock()
	if s.up != nil && !s.opened {
		s.up = nil
		s.mu.Unlock()
		return
	}
	first := !s.over
	s.over = true
	s.mu.Unlock()
	if first {
		s.to.Ended(e)
	}
}

// Ask implements stage.Upstream.
func (s *single[T]) Ask(n, acked int64, done ...stage.Range) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = credit.Add(s.asked, n)
	if s.up == nil {
		return nil
	}
	return s.up.Ask(n, acked, done...)
}

// Ack implements stage.Upstream.
func (s *single[T]) Ack(acked int64, done ...stage.Range) error {
	if up := s.current(); up != nil {
		return up.Ack(acked, done...)
	}
	return nil
}

// Cancel implements stage.Upstream.
func (s *single[T]) Cancel(c stage.Cancel[T]) {
	s.mu.Lock()
	up, whole := s.up, s.whole
	s.mu.Unlock()
	whole.Cancel(c)
	if up != nil {
		up.Cancel(c)
	}
}

// Revoke implements stage.Upstream.
func (s *single[T]) Revoke() int64 { return 0 }

// Discard implements stage.Upstream.
func (s *single[T]) Discard(int, string) {}

func (s *single[T]) current() stage.Upstream[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}
