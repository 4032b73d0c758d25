package builtin

import (
	"context"
	"io"
	"strconv"
	"strings"

	"golang.org/x/time/rate"

	"github.com/sluicenet/sluice/internal/config"
)

var generateSource = kind{
	kind: config.Source, name: "generate",
	keys: "count, rate, text",
	does: "numbered events: event 1, event 2",
	build: func(s *Stage, with *config.Section, env Env) error {
		settings := struct {
			Count int64   `yaml:"count"`
			Rate  float64 `yaml:"rate"`
			Text  string  `yaml:"text"`
		}{Text: "event {n}"}
		if err := config.Join(with.Decode(&settings), checkCount(with, settings.Count), checkRate(with, settings.Rate)); err != nil {
			return err
		}
		g := &generator{count: settings.Count, text: strings.Split(settings.Text, "{n}"), limit: limiter(settings.Rate)}
		s.source(env, g.produce)
		return nil
	},
}

func checkCount(with *config.Section, n int64) error {
	if n < 0 {
		return with.Errorf("count", "is %d, and has to be at least 0, which is endless", n)
	}
	return nil
}

// generator makes numbered events.
type generator struct {
	count int64    // 0 is endless
	text  []string // what stands around the numbers
	limit *rate.Limiter
	made  int64
}

func (g *generator) produce(ctx context.Context, n int) ([]string, error) {
	if g.limit != nil {
		if err := g.limit.Wait(ctx); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	events := make([]string, 0, min(n, atOnce))
	for len(events) < n {
		// The first one was waited for.
		if len(events) > 0 && g.limit != nil && !g.limit.Allow() {
			break
		}
		g.made++
		events = append(events, g.event())
		if g.made == g.count {
			return events, io.EOF
		}
	}
	return events, nil
}

func (g *generator) event() string { return strings.Join(g.text, strconv.FormatInt(g.made, 10)) }
