//go:build linux

package witness

import (
	"context"
	"log/slog"
)

// listener hears from the node's log how each publisher was left that a stage has
// followed: the end of one of several is no end of the subscription. What a producer
// could not be told comes again, and that is heard as well.
type listener struct {
	slog.Handler
	c *child
}

// Handle implements slog.Handler.
func (l *listener) Handle(ctx context.Context, r slog.Record) error {
	left := r.Message == "a publisher is not followed any more"
	if untold := r.Message == "a producer could not be told what was processed"; left || untold {
		said := map[string]slog.Value{}
		r.Attrs(func(a slog.Attr) bool {
			said[a.Key] = a.Value
			return true
		})
		how, why := said["how"].String(), said["why"].String()
		if untold {
			how, why = "cancelled", r.Message
		}
		l.c.byInlet[said["stage"].String()].left(said["session"].Uint64(), how, why)
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *listener) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &listener{l.Handler.WithAttrs(attrs), l.c}
}

// WithGroup implements slog.Handler.
func (l *listener) WithGroup(name string) slog.Handler {
	return &listener{l.Handler.WithGroup(name), l.c}
}
