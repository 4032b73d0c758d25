package node

import (
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
)

// finish ends the session and closes its stream. The lock is held.
func (v *served[T]) finish(cause error) {
	v.over = true
	if v.expires != nil {
		v.expires.Stop()
	}
	if v.stream != nil {
		v.stream.close(cause)
		v.stream = nil
	}
	v.p.n.budget.free(v.bytes)
	v.bytes = 0
	v.kept, v.queue, v.waiting, v.handed = nil, nil, 0, true
	v.spare.close()
}

// broken implements session: the session waits for another stream, inside its window.
func (v *served[T]) broken(s *stream) {
	v.mu.Lock()
	if !v.current(s) {
		v.mu.Unlock()
		s.close(nil)
		return
	}
	v.stream, v.since = nil, time.Now()
	v.mu.Unlock()
	s.close(nil)
	// The stage is asked without the lock. Meanwhile another stream may have taken
	// over; what is revoked is then asked for again, and nothing is lost.
	revoked := v.up.Revoke()
	v.mu.Lock()
	again := todo[T]{}
	switch {
	case v.over:
	case v.stream != nil:
		again = todo[T]{ask: revoked, acked: v.core.Acked()}
	default:
		v.core.Detach(revoked)
		v.arm()
	}
	v.mu.Unlock()
	v.do(again)
}

// arm sets the end of the window, which is near where the node is about to leave. The
// lock is held.
func (v *served[T]) arm() {
	left := v.patience() - time.Since(v.since)
	if v.expires == nil {
		v.expires = time.AfterFunc(left, v.windowOver)
	} else {
		v.expires.Reset(left)
	}
}

// patience is how long a broken connection may take to come back.
func (v *served[T]) patience() time.Duration {
	if v.p.n.draining.Load() {
		return min(v.window, drainGrace)
	}
	return v.window
}

// hurry tells the subscriber that the node is about to leave, and shortens the window of
// a session without a stream.
func (v *served[T]) hurry() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.poke()
	if v.stream == nil && !v.over && v.expires != nil {
		v.arm()
	}
}

func (v *served[T]) windowOver() {
	ended := v.end(errReplaced, "its connection did not come back in time", func() bool {
		return v.stream == nil && time.Since(v.since) >= v.patience()
	})
	if ended {
		v.p.n.log.Warn("subscriber lost", "outlet", v.p.port.Name(), "stage", v.who.stage, "of", v.who.node)
		v.p.over(v)
	}
}

// resume lets another stream take the session over, and returns what follows for the
// stage.
func (v *served[T]) resume(o wire.Opening, s *stream) (todo[T], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return todo[T]{}, &wire.Error{Rule: wire.RuleUnknownSession, What: "the session has just ended"}
	}
	step, err := v.core.Resume(o)
	if err != nil {
		return todo[T]{}, err
	}
	if v.stream != nil {
		v.stream.close(errReplaced)
	}
	v.stream, v.since = s, time.Now()
	v.spare.close() // what the last stream has in hand may be encoded still
	v.opened, v.more, v.leaving, v.settled = false, false, false, time.Time{}
	if v.expires != nil {
		v.expires.Stop()
	}
	s.poke()
	return v.apply(step), nil
}

// violated implements session.
func (v *served[T]) violated(s *stream, err error) {
	if v.end(err, err.Error(), func() bool { return v.stream == s }) {
		v.p.over(v)
	}
	s.close(err)
}

// expire gives back what the session holds, and ends it.
func (v *served[T]) expire(cause error, why string) {
	v.end(cause, why, func() bool { return true })
}

// end ends the session, if it is not over and when says so under the lock, and
// reports whether it did. What it holds goes back to the stage.
func (v *served[T]) end(cause error, why string, when func() bool) bool {
	v.mu.Lock()
	if v.over || !when() {
		v.mu.Unlock()
		return false
	}
	v.over = true
	v.mu.Unlock()
	why = clip(why)
	v.quiet(why)
	v.do(v.expired(cause, why))
	return true
}

// expired gives back what the session holds. A panic in it leaves no lock behind.
func (v *served[T]) expired(cause error, why string) todo[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.finish(cause)
	return v.drop(v.core.Expire(), why)
}

func (v *served[T]) detached() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stream == nil
}
