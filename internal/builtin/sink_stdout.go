package builtin

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/sluicenet/sluice/internal/config"
)

var stdoutSink = kind{
	kind: config.Sink, name: "stdout",
	keys: "rate",
	does: "standard output, one event a line",
	build: func(s *Stage, with *config.Section, env Env) error {
		var settings struct {
			Rate float64 `yaml:"rate"`
		}
		if err := config.Join(with.Decode(&settings), checkRate(with, settings.Rate)); err != nil {
			return err
		}
		w := &lineWriter{to: stdout{env.Stdout}, limit: limiter(settings.Rate)}
		s.use = use{what: "stdout"}
		s.sink(env, w.consume)
		return nil
	},
}

// stdout says in words that nobody reads any more.
type stdout struct{ to io.Writer }

func (s stdout) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = &Failure{
			Err: fmt.Errorf("write to stdout: %w", syscall.EPIPE),
			Try: "see why the program that reads it has ended",
		}
	}
	return n, err
}
