package builtin

import (
	"context"
	"os"

	"github.com/sluicenet/sluice/internal/config"
)

var fileSink = kind{
	kind: config.Sink, name: "file",
	keys: "path, append, rate",
	does: "a file, one event a line",
	build: func(s *Stage, with *config.Section, env Env) error {
		var settings struct {
			Path   string  `yaml:"path"`
			Append bool    `yaml:"append"`
			Rate   float64 `yaml:"rate"`
		}
		err := with.Decode(&settings)
		if err = config.Join(err, checkPath(with, settings.Path, err), checkRate(with, settings.Rate)); err != nil {
			return err
		}
		how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if settings.Append {
			how = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		w := &lineWriter{limit: limiter(settings.Rate)}
		s.open = func(ctx context.Context) error {
			// To open a pipe waits for its other end.
			return under(ctx, func() error {
				f, err := os.OpenFile(settings.Path, how, 0o644)
				if err == nil {
					w.to = f
				}
				return err
			})
		}
		s.close = w.close
		s.use = use{what: absolute(settings.Path), key: "path"}
		if settings.Path == os.DevNull {
			s.use.shared = true
		}
		s.sink(env, w.consume)
		return nil
	},
}
