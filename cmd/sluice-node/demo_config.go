package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// config is the file of one of the nodes.
func (d *demo) config(name string, join []string) []byte {
	join = append([]string{}, join...) // a list, also when it is empty
	stages := map[string]string{
		nodeA: fmt.Sprintf("  lines: {source: file, with: {path: %s}}\n", quoted(d.input)),
		nodeB: fmt.Sprintf("  kept: {gate: filter, from: lines, with: {expr: %s}}\n  loud: {gate: map, from: kept, with: {expr: %s}}\n",
			quoted(d.filter), quoted(d.mapping)),
		nodeC: fmt.Sprintf("  out: {sink: stdout, from: loud, with: {rate: %v}}\n", d.rate),
	}
	return fmt.Appendf(nil, `version: 1
node: {name: %s}
listen: {grpc: {address: "127.0.0.1:0"}}
cluster: {name: %s, bind: "127.0.0.1:0", join: %s}
stages:
%s`, name, filepath.Base(d.dir), quoted(join), stages[name])
}

// quoted is a value as JSON, which is YAML too.
func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}
