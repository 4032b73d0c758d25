package main

import (
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// logging is the flags that say what is logged, and how.
type logging struct{ level, format string }

func (l *logging) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "info", "what to log: debug, info, warn or error")
	cmd.Flags().StringVar(&l.format, "log-format", "text", "how to log: text or json")
	for flag, values := range map[string][]string{"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// open returns the log, and how failures are said: for people as they need them,
// for programs as a part of the log.
func (l *logging) open(to io.Writer) (*slog.Logger, func(failure), error) {
	w := &locked{w: to}
	var level slog.Level
	switch strings.ToLower(l.level) {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(l.level))
	default:
		return nil, nil, &usageError{"--log-level wants debug, info, warn or error, not " + l.level}
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), func(f failure) { f.write(w) }, nil
	case "json":
		log := slog.New(slog.NewJSONHandler(w, options))
		return log, func(f failure) { log.Error(f.what, "why", f.why, "try", f.try) }, nil
	}
	return nil, nil, &usageError{"--log-format wants text or json, not " + l.format}
}

// locked lets several goroutines write.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
