package builtin

import (
	"context"
	"io"
	"time"

	"golang.org/x/time/rate"
)

// writeAt is how many bytes are written at once.
const writeAt = 64 << 10

// lineWriter writes events, one a line.
type lineWriter struct {
	to    io.Writer
	limit *rate.Limiter // nil for none
	buf   []byte
}

// consume writes a batch. When it returns without an error, the system has all of
// it.
func (w *lineWriter) consume(ctx context.Context, events []string) error {
	for _, event := range events {
		if err := w.wait(ctx); err != nil {
			return err
		}
		w.buf = append(append(w.buf, event...), '\n')
		if len(w.buf) >= writeAt {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

// wait holds up the next event for as long as the rate says. What was consumed
// before does not wait with it.
func (w *lineWriter) wait(ctx context.Context) error {
	if w.limit == nil {
		return nil
	}
	d := w.limit.Reserve().Delay()
	if d == 0 {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush writes what is buffered. Whoever reads a pipe may let it wait for ever, so
// it is left behind when ctx ends.
func (w *lineWriter) flush(ctx context.Context) error {
	if len(w.buf) == 0 {
		return nil
	}
	to, buf := w.to, w.buf
	w.buf = nil
	err := under(ctx, func() error {
		_, err := to.Write(buf)
		return err
	})
	if err == nil && cap(buf) <= 4*writeAt {
		w.buf = buf[:0]
	}
	return err
}

func (w *lineWriter) close() error {
	c, ok := w.to.(io.Closer)
	if !ok {
		return nil
	}
	w.to = nil
	return c.Close()
}
