package stage

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

// settled reports whether nothing is left that a closing producer waits for.
func (p *producer[T]) settled() bool {
	if p.closing.Reason == Failed {
		return true
	}
	return p.store.len() == 0 && p.unacked == 0
}

// finish tells every subscriber that it is over.
func (p *producer[T]) finish() {
	p.ended = true
	for _, sub := range p.subs {
		sub.dropped = true
		if !sub.left {
			p.joined--
			p.todo = append(p.todo, order[T]{sub: sub, ending: p.closing, joined: p.joined})
		}
		sub.left = true
	}
	p.subs, p.held, p.joined, p.unacked, p.unmet, p.departed = nil, nil, 0, 0, 0, 0
}

func (p *producer[T]) discard(reason string, n int) {
	if n == 0 {
		return
	}
	p.discarded[reason] += int64(n)
	p.todo = append(p.todo, order[T]{discard: reason, count: n})
}
