package builtin

import "github.com/sluicenet/sluice/internal/config"

var stdinSource = kind{
	kind: config.Source, name: "stdin",
	keys: "max_line",
	does: "the lines of standard input, to its end",
	build: func(s *Stage, with *config.Section, env Env) error {
		settings := struct {
			MaxLine int `yaml:"max_line"`
		}{MaxLine: defaultMaxLine}
		if err := config.Join(with.Decode(&settings), checkMaxLine(with, settings.MaxLine)); err != nil {
			return err
		}
		lines := &lineReader{name: "stdin", max: settings.MaxLine, in: &patient{r: env.Stdin}}
		s.use = use{what: "stdin"}
		s.source(env, lines.produce)
		return nil
	},
}
