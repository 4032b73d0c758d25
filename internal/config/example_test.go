package config_test

import (
	"fmt"

	"github.com/sluicenet/sluice/internal/config"
)

func ExampleParse() {
	_, err := config.Parse("sluice.yaml", []byte(`
version: 1
node: {nmae: a}
stages:
  lines: {source: file, with: {path: in.txt}}
  loud:
    gate: map
    from: {outlet: lines, max_demand: 10, min_demand: 50}
`))
	fmt.Println(err)
	// Output:
	// sluice.yaml:3:7: node.name is required: it is how a cluster knows this node, so no other may have it [SL0107]
	// sluice.yaml:3:8: unknown key "nmae" in node, did you mean "name"? [SL0103]
	// sluice.yaml:8:55: stages.loud.from.min_demand is 50, and has to be less than max_demand, which is 10 [SL0108]
}

// A kind of stage decodes what its stages are made with, and reports what only it
// can know in the same form.
func ExampleSection_Decode() {
	file, err := config.Parse("sluice.yaml", []byte(`
version: 1
node: {name: a}
stages:
  lines: {source: file, with: {path: in.txt, every: 250ms}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	with := file.Stages[0].With
	settings := struct {
		Path    string `yaml:"path"`
		StartAt string `yaml:"start_at"`
	}{StartAt: "beginning"}
	fmt.Println(with.Decode(&settings))
	fmt.Println(settings.Path, settings.StartAt)
	fmt.Println(with.Errorf("path", "%s is not there", settings.Path))
	// Output:
	// sluice.yaml:5:46: unknown key "every" in stages.lines.with: it takes path, start_at [SL0103]
	// in.txt beginning
	// sluice.yaml:5:38: stages.lines.with.path: in.txt is not there [SL0120]
}
