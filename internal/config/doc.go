// Package config reads the file that tells sluice-node what to run.
//
//	version: 1
//	node: {name: a}
//	listen: {grpc: {address: "127.0.0.1:7301", advertise: ""}}
//	cluster: {name: demo, bind: "127.0.0.1:7401", join: ["127.0.0.1:7401"], keyring: gossip.keys}
//	tls: {cert: a.pem, key: a.key, ca: ca.pem}
//	authorize:
//	  - {identities: ["*.nodes.example.org"], may: [subscribe, publish], outlets: ["*"]}
//	  - {identities: ["ops.example.org"], may: [administer]}
//	stages:
//	  lines: {source: file, with: {path: in.txt}}
//	  long:  {gate: filter, from: lines, with: {expr: "len(event) > 80"}}
//	  loud:  {gate: map, from: [{outlet: long, max_demand: 100, min_demand: 50}], with: {expr: "upper(event)"}}
//	  out:   {sink: file, from: loud, with: {path: out.txt}}
//
// An entry of from may let the stage size its demand by itself, from max_demand on, within
// bounds or those that there are by default:
//
//	near: {sink: file, from: {outlet: load, auto_demand: true}, with: {path: near.txt}}
//	far:
//	  sink: file
//	  from: {outlet: load, max_demand: 200, auto_demand: {min: 10, max: 50000, max_bytes: 4194304}}
//	  with: {path: far.txt}
//
// Every gate and sink takes on_error, every source and gate max_attempts, and dead_letter
// names the outlet for what a stage gives up:
//
//	parse: {gate: map, from: loud, with: {expr: "..."}, on_error: skip}
//	load:
//	  sink: file
//	  from: parse
//	  with: {path: loaded.txt}
//	  on_error: {retry: {attempts: 3, delay: 100ms, max_delay: 5s, then: dead_letter}}
//	  dead_letter: failed
//
// What a stage is made with stays a [Section] until the kind of stage is known
// that decodes it.
//
// # Guarantees
//
// A file is read strictly: a key that is not known is an error, as is one that is
// given twice. A key without a value counts as not given.
//
// All problems of a file are reported at once, as [Errors]: sorted by position,
// one a line, each with file, line, column and a code. A file that is not YAML is
// the exception, there is only one problem then.
//
// Anchors and aliases are taken, but what they expand to is bounded, as are the
// size of the file and how deep it nests. Reading costs no more than that,
// whatever the file holds.
//
// Stages come in the order of the file.
//
// # Codes
//
// A code says what kind of problem it is, and stays the same in later versions.
//
//	SL0101  not one document of YAML: not UTF-8, empty, broken, or several
//	SL0102  YAML that is not taken here: tags, merge keys, keys that are not text
//	SL0103  a key that is not known
//	SL0104  a key that is given twice
//	SL0105  a value of the wrong type
//	SL0106  too much: too large, nested too deep, aliases that multiply
//	SL0107  something that is required is missing
//	SL0108  a value that is not allowed: a version, a name, a number, a duration
//	SL0109  an address that is not usable
//	SL0110  cluster.name is missing where other nodes are joined
//	SL0111  a stage that is not exactly one of source, gate and sink
//	SL0112  a source with from, or a gate or sink without
//	SL0113  an outlet that is named twice in one from
//	SL0114  stages that wait for themselves
//	SL0115  a stage that reads from a sink
//	SL0116  tls, authorize and admin do not go together
//	SL0117  publishers or expect where the outlet is one of this file
//	SL0118  on_error, max_attempts or dead_letter where it does nothing
//	SL0119  a dead_letter that has the name of a stage
//	SL0120  what the kind of a stage says about its settings
package config
