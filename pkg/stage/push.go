package stage

import "context"

// Push emits events into the source, from any goroutine: what was asked for goes out
// at once, the rest is buffered, and what the buffer has no room for is given up by
// its policy. The source cannot slow down whoever pushes; see PushWait. It returns
// ErrEnded, and emits nothing, when the source has ended, is stopped, or was told to
// finish. It does not wait, and may be called before the run and from handlers. The slice
// stays the caller's.
func (s *Source[T]) Push(events ...T) error {
	_, err := s.out.push(context.Background(), false, events)
	return err
}

// PushWait is Push for those who can wait: it waits until there is room for the
// events, so that none is given up, and pushes them in parts where they are more than
// there will be room for. Room is what is asked for and what the buffer can take; with
// partitions it is that of the buffer alone, since nobody knows who wants an event before
// it is there, and without a buffer there is none. Events of one call stay in order, those
// of several may mix.
//
// It returns how many events were emitted, and ErrEnded or the cause of ctx when those
// were not all.
func (s *Source[T]) PushWait(ctx context.Context, events ...T) (int, error) {
	if s.out == nil {
		return 0, ErrNotMade
	}
	defer when(ctx, s.out.wake)()
	pushed := 0
	for pushed < len(events) {
		n, err := s.out.push(ctx, true, events[pushed:])
		if pushed += n; err != nil {
			return pushed, err
		}
	}
	return pushed, nil
}

// Finish ends the source well, as if its handler had returned io.EOF: what was pushed
// before is served first, and what was sent to it is handled. It does not wait.
func (s *Source[T]) Finish() {
	if s.out == nil {
		return // it is a literal, and nobody can run it
	}
	s.out.lock()
	s.out.finishing = true
	s.out.news.Broadcast()
	s.out.mu.Unlock()
	s.finish()
}

// Forward lets the asks pass that Accumulate has held, one by one in their order, and
// all that follow. It does nothing the second time, or without Accumulate. It may be
// called at any time and from any goroutine, and does not wait.
func (s *Source[T]) Forward() {
	if s.out == nil {
		return
	}
	s.out.lock()
	defer s.out.unlock(nil)
	s.out.core.forward()
}

// push emits events, all of them, or with wait as many as there is room for, at least
// one.
func (o *outlet[T]) push(ctx context.Context, wait bool, events []T) (n int, err error) {
	if o == nil {
		return 0, ErrNotMade
	}
	o.lock()
	defer o.unlock(&err)
	for n = len(events); ; {
		if o.ends() {
			return 0, ErrEnded
		}
		if !wait {
			break
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if n = min(o.core.room(), len(events)); n > 0 {
			break
		}
		o.news.Wait()
	}
	o.core.asks++ // a handler that had nothing may have something now
	o.put(events[:n])
	return n, nil
}

// ends reports whether a source has ended, or is about to.
func (o *outlet[T]) ends() bool { return o.core.closing != nil || o.core.hurried || o.finishing }

// wake lets those look again who wait for something.
func (o *outlet[T]) wake() {
	o.mu.Lock()
	o.news.Broadcast()
	o.mu.Unlock()
}
