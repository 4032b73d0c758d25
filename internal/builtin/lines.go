package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

const (
	// defaultMaxLine is how long a line may be where nobody says.
	defaultMaxLine = 1 << 20
	// mostMaxLine is the longest that it may be allowed to be.
	mostMaxLine = 1 << 30
	// firstBuffer is how much is read at once, as long as lines fit into it.
	firstBuffer = 64 << 10
	// atOnce is the most events that room is made for before they are there.
	atOnce = 1024
)

// lineReader cuts what it reads into lines.
type lineReader struct {
	name string
	in   input
	max  int // bytes of a line

	buf        []byte
	start, end int // what is read and not emitted
	scanned    int // up to where there is no newline
	line       int64
	err        error // of the input, said when everything before it is emitted
}

// input is where a lineReader reads. Either it never waits for long, and is ready,
// or it may, and returns the cause of ctx when that ends first.
type input interface {
	read(ctx context.Context, p []byte) (int, error)
	ready() bool
}

// produce returns the next n lines, or fewer: from a ready input only at its end,
// with the end itself, which is io.EOF, or what went wrong.
func (l *lineReader) produce(ctx context.Context, n int) ([]string, error) {
	events := make([]string, 0, min(n, atOnce))
	for len(events) < n {
		if i := bytes.IndexByte(l.buf[l.scanned:l.end], '\n'); i >= 0 {
			newline := l.scanned + i
			if newline-l.start > l.max {
				return events, l.tooLong()
			}
			events = l.emit(events, newline)
			l.start = newline + 1
			l.scanned = l.start
			continue
		}
		l.scanned = l.end
		switch {
		case l.end-l.start > l.max:
			return events, l.tooLong()
		case l.err == io.EOF && l.start < l.end: //nolint:errorlint // as read returns it
			events = l.emit(events, l.end)
			l.start = l.end
			continue
		case l.err != nil:
			return events, l.err
		case len(events) > 0 && !l.in.ready():
			return events, nil
		}
		if err := l.fill(ctx); err != nil {
			return events, err
		}
	}
	// Whoever gets the last line hears at once that it was the last.
	if l.start == l.end && l.err == nil && l.in.ready() {
		if err := l.fill(ctx); err != nil {
			return events, err
		}
	}
	if l.start == l.end {
		return events, l.err
	}
	return events, nil
}

func (l *lineReader) emit(events []string, end int) []string {
	l.line++
	return append(events, string(l.buf[l.start:end]))
}

func (l *lineReader) tooLong() error {
	return &Failure{
		Err: fmt.Errorf("%s:%d: the line is longer than %d bytes", l.name, l.line+1, l.max),
		Try: "allow longer lines with max_line, or see if the file is one of lines at all",
	}
}

// fill reads once, and keeps the error of the input for later. The error that it
// returns is that of ctx.
func (l *lineReader) fill(ctx context.Context) error {
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.end -= l.start
		l.start, l.scanned = 0, l.end
	}
	if l.end == len(l.buf) {
		size := max(firstBuffer, 2*len(l.buf))
		// A line of max bytes and its newline have to fit, and no more.
		size = max(min(size, l.max+1), len(l.buf)+1)
		l.buf = append(make([]byte, 0, size), l.buf...)[:size]
	}
	for range 100 {
		n, err := l.in.read(ctx, l.buf[l.end:])
		l.end += n
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil || n > 0 {
			l.err = err
			return nil
		}
	}
	l.err = io.ErrNoProgress
	return nil
}

// direct is an input that never waits for long: a file on a disk.
type direct struct{ r io.Reader }

func (d direct) read(_ context.Context, p []byte) (int, error) { return d.r.Read(p) }
func (d direct) ready() bool                                   { return true }

// patient is an input that may wait for ever: a pipe, a terminal. A read that
// nobody waits for any more is left to itself; what it brings is not lost, should
// somebody come back for it.
type patient struct {
	r    io.Reader
	buf  []byte
	rest []byte // read and not handed out
	err  error
	busy chan struct{} // closed when the read that is under way is done
}

func (p *patient) ready() bool { return false }

func (p *patient) read(ctx context.Context, to []byte) (int, error) {
	if len(p.rest) == 0 && p.err == nil {
		if p.busy == nil {
			p.begin()
		}
		select {
		case <-p.busy:
			p.busy = nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	n := copy(to, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) > 0 {
		return n, nil
	}
	return n, p.err
}

func (p *patient) begin() {
	if p.buf == nil {
		p.buf = make([]byte, firstBuffer)
	}
	done := make(chan struct{})
	p.busy = done
	go func() {
		defer close(done)
		n, err := p.r.Read(p.buf)
		p.rest, p.err = p.buf[:n], err
	}()
}
