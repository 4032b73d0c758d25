package stage

import "slices"

// ended is closed when the producer has ended, and of a stage that was not made.
func (o *outlet[T]) ended() <-chan struct{} {
	if o == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return o.done
}

// tap calls watch with what is emitted, until stop is called.
func (o *outlet[T]) tap(watch func([]T)) (stop func()) {
	if o == nil {
		return func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &watch
	o.taps = append(o.taps, t)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.taps = slices.DeleteFunc(o.taps, func(x *func([]T)) bool { return x == t })
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
