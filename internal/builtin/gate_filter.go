package builtin

import (
	"context"
	"reflect"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

var filterGate = kind{
	kind: config.Gate, name: "filter",
	keys: "expr",
	does: `the events for which expr is true: len(event) > 80`,
	build: func(s *Stage, with *config.Section, env Env) error {
		keep, err := compile(with, reflect.Bool)
		if err != nil {
			return err
		}
		s.gate(env, func(_ context.Context, events []string) ([]string, error) {
			kept := make([]string, 0, len(events))
			for i, event := range events {
				is, err := keep.of(event)
				if err != nil {
					return kept, stage.FailedAt(i, err)
				}
				if is == true {
					kept = append(kept, event)
				}
			}
			return kept, nil
		})
		return nil
	},
}
