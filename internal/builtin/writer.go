package builtin

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicenet/sluice/pkg/stage"
)

// writeAt is how many bytes are written at once.
const writeAt = 64 << 10

// lineWriter writes events, one a line. A write that fails in the middle of a line spoils
// none: the next event completes it where it begins like that, as the same one does that
// is tried again, and begins a line of its own otherwise.
type lineWriter struct {
	to    io.Writer
	limit *rate.Limiter // nil for none
	buf   []byte
	ends  []int // where each event in buf ends
	done  int   // how many events of the batch are written

	head   string // of the line that is not complete, what is written
	closes bool   // buf begins with the newline that ends it
}

// consume writes a batch. When it returns without an error, the system has all of
// it.
func (w *lineWriter) consume(ctx context.Context, events []string) error {
	w.buf, w.ends, w.done = w.buf[:0], w.ends[:0], 0
	for _, event := range events {
		if err := w.wait(ctx); err != nil {
			return err
		}
		w.add(event)
		if len(w.buf) >= writeAt {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx)
}

func (w *lineWriter) add(event string) {
	if len(w.buf) == 0 && w.head != "" {
		rest, same := strings.CutPrefix(event+"\n", w.head)
		if w.closes = !same; w.closes {
			w.buf = append(w.buf, '\n')
		}
		w.buf = append(w.buf, rest...)
	} else {
		w.buf = append(append(w.buf, event...), '\n')
	}
	w.ends = append(w.ends, len(w.buf))
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

// cutShort is the error of a write that has written n bytes.
type cutShort struct {
	n   int
	err error
}

func (c *cutShort) Error() string { return c.err.Error() }

// flush writes what is buffered. Whoever reads a pipe may let it wait for ever, so
// it is left behind when ctx ends.
func (w *lineWriter) flush(ctx context.Context) error {
	if len(w.buf) == 0 {
		return nil
	}
	to, buf, ends := w.to, w.buf, w.ends
	w.buf, w.ends = nil, nil
	err := under(ctx, func() error {
		n, err := to.Write(buf)
		if err != nil {
			return &cutShort{n, err}
		}
		return nil
	})
	if cut, ok := err.(*cutShort); ok { //nolint:errorlint // it comes from here
		w.torn(buf[:cut.n], ends)
		err = stage.FailedAt(w.done, cut.err)
	} else if err == nil {
		w.done += len(ends)
		w.head, w.closes = "", false
	} else {
		return err // buf is still in use
	}
	if cap(buf) <= 4*writeAt {
		w.buf, w.ends = buf[:0], ends[:0]
	}
	return err
}

// torn notes how far a write came that failed.
func (w *lineWriter) torn(written []byte, ends []int) {
	whole, _ := slices.BinarySearch(ends, len(written)+1)
	w.done += whole
	switch {
	case whole > 0:
		w.head = string(written[ends[whole-1]:])
	case !w.closes:
		w.head += string(written)
	case len(written) > 0:
		w.head = string(written[1:])
	}
	w.closes = false
}

func (w *lineWriter) close() error {
	c, ok := w.to.(io.Closer)
	if !ok {
		return nil
	}
	w.to = nil
	return c.Close()
}
