//go:build linux

package witness

import (
	"context"
	"log/slog"
)

// listener hears from the node's log how each publisher was left that a stage has
// followed: the end of one of several is no end of the subscription.
type listener struct {
	slog.Handler
	c *child
}

// Handle implements slog.Handler.
func (l *listener) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "a publisher is not followed any more" {
		said := map[string]slog.Value{}
		r.Attrs(func(a slog.Attr) bool {
			said[a.Key] = a.Value
			return true
		})
		l.c.byInlet[said["stage"].String()].left(said["session"].Uint64(), said["how"].String(), said["why"].String())
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
