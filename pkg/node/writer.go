package node

import (
	"context"
	"sync"
	"time"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// writer writes on one stream what its session has to say. A goroutine of its own does
// that, and so does any other one that has just made something to say: an ask costs no
// hand-over then.
type writer[T any] struct {
	i    *inflow[T]
	ctx  context.Context // of the stream
	call sluicev1.SubscriptionService_SubscribeClient
	life *pulse
	cut  func()

	sending sync.Mutex  // held by who writes
	late    *time.Timer // see expectEnd
	closed  bool        // its side of the stream is
	failed  bool        // nothing can be sent any more

	flight flight
	opened bool // the producer has answered; under the lock of the session
}

// sendPatience is how long a stream is read that nothing can be sent on.
const sendPatience = time.Second

// run writes open and then what there is to say, until the stream ends.
func (w *writer[T]) run(open *sluicev1.SubscriberFrame) {
	w.sending.Lock()
	defer w.sending.Unlock()
	defer func() {
		if w.late != nil {
			w.late.Stop()
		}
	}()
	w.failed = w.send(open) != nil
	w.life.spoke()
	for {
		w.flush(false)
		switch {
		case w.closed:
			return
		case w.failed:
			// Recv says why. But gRPC opens a stream again that broke before it was used, and
			// may do so behind a Send that fails: then Recv waits, and nobody writes. Such a
			// stream is given up.
			pause(w.ctx, sendPatience)
			w.cut()
			return
		}
		due := false
		w.sending.Unlock()
		select {
		case <-w.i.wake:
		case <-w.life.owes.C:
			due = true
		case <-w.ctx.Done():
		}
		w.sending.Lock()
		if w.ctx.Err() != nil {
			return
		}
		if due && w.life.due() {
			w.i.mu.Lock()
			w.i.core.Repeat()
			w.i.mu.Unlock()
		}
	}
}

// flush writes what there is to say now. Where it is lent, it stops when it might wait.
// Sending is held.
func (w *writer[T]) flush(lent bool) {
	i := w.i
	for !w.closed && !w.failed {
		i.mu.Lock()
		if i.writer != w || lent && !w.light() {
			i.mu.Unlock()
			return
		}
		f, halfClose := i.core.Next()
		i.mu.Unlock()
		switch {
		case halfClose:
			w.life.waiting() // for the producer to close the stream
			_ = w.call.CloseSend()
			w.closed = true
		case f == nil:
			return
		case w.send(f) != nil:
			w.failed = true
		default:
			w.life.spoke()
			if f.GetCancel() != nil && w.late == nil {
				w.late = i.expectEnd(w.ctx, w.cut)
			}
		}
	}
}

// send sends a frame.
func (w *writer[T]) send(f *sluicev1.SubscriberFrame) error {
	buf := bodies.Get(wire.FrameSize(f))
	data, err := wire.AppendFrame((*buf)[:0], f)
	if err != nil {
		return err
	}
	*buf = data
	return w.call.SendMsg(&packed{body: buf, on: &w.flight})
}

// light reports whether a frame can be written that does not wait. The session's lock is
// held.
func (w *writer[T]) light() bool { return w.opened && w.flight.light() }

// lend writes on the caller's goroutine. It reports false where the writer's own has to
// look.
func (w *writer[T]) lend() bool {
	if !w.sending.TryLock() {
		return false
	}
	defer w.sending.Unlock()
	w.flush(true)
	w.i.mu.Lock()
	defer w.i.mu.Unlock()
	return w.light() && !w.closed && !w.failed
}

// close says that the stream is over.
func (w *writer[T]) close() {
	w.i.mu.Lock()
	defer w.i.mu.Unlock()
	if w.i.writer == w {
		w.i.writer = nil
	}
}
