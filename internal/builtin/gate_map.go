package builtin

import (
	"context"
	"reflect"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

var mapGate = kind{
	kind: config.Gate, name: "map",
	keys: "expr",
	does: `expr of each event: upper(event)`,
	build: func(s *Stage, with *config.Section, env Env) error {
		f, err := compile(with, reflect.String)
		if err != nil {
			return err
		}
		s.gate(env, func(_ context.Context, events []string) ([]string, error) {
			made := make([]string, 0, len(events))
			for i, event := range events {
				text, err := f.of(event)
				if err != nil {
					return made, stage.FailedAt(i, err)
				}
				made = append(made, text.(string))
			}
			return made, nil
		})
		return nil
	},
}
