package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrong checks the whole text of what is wrong with a file.
func wrong(t *testing.T, text string, lines ...string) {
	t.Helper()
	f, err := Parse("f", []byte(text))
	require.EqualError(t, err, strings.Join(lines, "\n"), "%s", text)
	require.Nil(t, f)
	require.ErrorAs(t, err, new(Errors))
}

func TestNotYAML(t *testing.T) {
	const head = "version: 1\nnode: {name: a}\n"

	wrong(t, "", `f:1:1: the file is empty [SL0101]`)
	wrong(t, "# nothing\n", `f:1:1: the file is empty [SL0101]`)
	wrong(t, "---\n", `f:1:1: the file is empty [SL0101]`)
	wrong(t, "~", `f:1:1: the file is empty [SL0101]`)
	wrong(t, head+"---\nversion: 1\n", `f:3:1: a second document begins here, a file has one [SL0101]`)
	wrong(t, head+"---\n{", `f:5:1: this is not YAML: did not find expected node content, while parsing a flow node [SL0101]`)
	wrong(t, head+"x: ä\xff", `f:3:5: the file is not UTF-8: byte 0xff [SL0101]`)
	wrong(t, "\xff\xfev\x00", `f:1:1: the file is not UTF-8: byte 0xff [SL0101]`)
	wrong(t, head+"x: \x00", `f:3:4: YAML does not permit the character U+0000 [SL0101]`)
	wrong(t, head+"x: [a\n", `f:4:1: this is not YAML: did not find expected ',' or ']', while parsing a flow sequence that began at 3:4 [SL0101]`)
	wrong(t, head+"x: a: b\n", `f:3:5: this is not YAML: mapping values are not allowed in this context [SL0101]`)
	wrong(t, head+"x: *y\n", `f:3:4: this is not YAML: unknown anchor 'y' referenced [SL0101]`)

	wrong(t, "- a\n", `f:1:1: want a mapping, have a list [SL0105]`)
	wrong(t, "hello", `f:1:1: want a mapping, have the text "hello" [SL0105]`)

	wrong(t, head+"stages: {a: {source: x, with: {<<: {b: c}}}}", `f:3:32: merge keys (<<) are not taken here, write the keys out [SL0102]`)
	wrong(t, head+"stages: {a: {source: x, with: {[b]: c}}}", `f:3:32: a key has to be text, this is a list [SL0102]`)
	wrong(t, head+"stages: {a: {source: x, with: {~: c}}}", `f:3:32: a key has to be text, this is nothing [SL0102]`)
	wrong(t, head+"stages: {a: {source: !env x}}", `f:3:22: tags such as !env are not taken here [SL0102]`)
}

func TestKeys(t *testing.T) {
	wrong(t, "version: 1\nnode: {name: a, zone: x}\n", `f:2:17: unknown key "zone" in node: it takes name, max_bytes [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nstage: {}\n", `f:3:1: unknown key "stage", did you mean "stages"? [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\ntelemetry: {}\n",
		`f:3:1: unknown key "telemetry": the file takes version, node, listen, cluster, tls, authorize, admin, stages [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nlisten:\n  grpc:\n    adress: x\n",
		`f:5:5: unknown key "adress" in listen.grpc, did you mean "address"? [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  a:\n    source: x\n    wiht: {}\n",
		`f:6:5: unknown key "wiht" in stages.a, did you mean "with"? [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  a: {sink: x, from: {outlet: b, max-demand: 3}}\n",
		`f:4:34: unknown key "max-demand" in stages.a.from, did you mean "max_demand"? [SL0103]`)

	wrong(t, "version: 1\nnode: {name: a}\n\"a\\nb\": x\n\"c\\0d\": x\n",
		`f:3:1: unknown key "a\nb": the file takes version, node, listen, cluster, tls, authorize, admin, stages [SL0103]`,
		`f:4:1: unknown key "c\x00d": the file takes version, node, listen, cluster, tls, authorize, admin, stages [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nversion: 1\n", `f:3:1: the key "version" is given twice, first at line 1 [SL0104]`)
	wrong(t, "version: 1\nnode: {name: a, 'name': b}\n", `f:2:17: the key "name" is given twice, first at line 2 [SL0104]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  a: {source: x}\n  a: {source: x}\n",
		`f:5:3: the key "a" is given twice, first at line 4 [SL0104]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  a: {source: x, with: {b: {c: 1, c: 2}}}\n",
		`f:4:35: the key "c" is given twice, first at line 4 [SL0104]`)
}

func TestSettings(t *testing.T) {
	wrong(t, "node: {name: a}", `f:1:1: version is required: this program reads version: 1 [SL0107]`)
	wrong(t, "version: 2\nnode: {name: a}", `f:1:10: version 2 is not known: this program reads version: 1 [SL0108]`)
	wrong(t, "version: one\nnode: {name: a}", `f:1:10: version: want a whole number, have the text "one" [SL0105]`)
	wrong(t, "version: 99999999999999999999\nnode: {name: a}", `f:1:10: version: the number 99999999999999999999 does not fit [SL0108]`)

	const required = `node.name is required: it is how a cluster knows this node, so no other may have it [SL0107]`
	wrong(t, "version: 1\n", `f:1:1: `+required)
	wrong(t, "version: 1\nnode: {}\n", `f:2:7: `+required)
	wrong(t, "version: 1\nnode:\n  name:\n", `f:3:3: `+required)
	wrong(t, "version: 1\nnode: a\n", `f:2:7: node: want a mapping, have the text "a" [SL0105]`)
	wrong(t, "version: 1\nnode: {name: [a]}\n", `f:2:14: node.name: want text, have a list [SL0105]`)
	wrong(t, "version: 1\nnode: {name: ''}\n", `f:2:14: node.name "" is no name: it is empty [SL0108]`)
	wrong(t, "version: 1\nnode: {name: a b}\n", `f:2:14: node.name "a b" has " " in it: names are of A-Z a-z 0-9 . _ - [SL0108]`)
	wrong(t, "version: 1\nnode: {name: "+strings.Repeat("n", 129)+"}\n",
		`f:2:14: node.name "`+strings.Repeat("n", 60)+`…" is longer than 128 bytes [SL0108]`)
	wrong(t, "version: 1\nnode: {name: a, max_bytes: 0}\n", `f:2:28: node.max_bytes is 0, and has to be at least 1 [SL0108]`)
	wrong(t, "version: 1\nnode: {name: a, max_bytes: 1GB}\n", `f:2:28: node.max_bytes: want a whole number, have the text "1GB" [SL0105]`)
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: a/b}\n",
		`f:3:17: cluster.name "a/b" has "/" in it: names are of A-Z a-z 0-9 . _ - [SL0108]`)
}

func TestBadAddresses(t *testing.T) {
	grpc := func(key, value, want string) {
		t.Helper()
		text := fmt.Sprintf("version: 1\nnode: {name: a}\nlisten:\n  grpc:\n    %s: %q\n", key, value)
		wrong(t, text, fmt.Sprintf("f:5:%d: listen.grpc.%s %q %s [SL0109]", len(key)+7, key, value, want))
	}
	grpc("address", "localhost", "is not host:port: missing port in address")
	grpc("address", "", "is not host:port: missing port in address")
	grpc("address", "::1:7301", "is not host:port: too many colons in address")
	grpc("address", "a:http", "is not host:port: the port is not a number from 0 to 65535")
	grpc("address", "a:65536", "is not host:port: the port is not a number from 0 to 65535")
	grpc("address", "a b:1", "is not host:port: the host is neither a name nor an IP address")
	grpc("address", "http://a:1", "is not host:port: too many colons in address")
	grpc("advertise", ":7301", "needs a host to dial")
	grpc("advertise", "a:0", "needs a port to dial, 0 is none")
	grpc("advertise", "0.0.0.0:7301", "is every interface here, and nothing that others can dial")

	bind := func(value, want string) {
		t.Helper()
		text := fmt.Sprintf("version: 1\nnode: {name: a}\ncluster:\n  bind: %q\n", value)
		wrong(t, text, fmt.Sprintf("f:4:9: cluster.bind %q %s [SL0109]", value, want))
	}
	bind("7401", "is not host:port: missing port in address")
	bind("localhost:7401", "needs an IP address: gossip takes a host name for every interface")
	bind(":7401", "needs an IP address: 0.0.0.0 listens on every interface")
	bind("[fe80::1%eth0]:7401", "needs an IP address without a zone")

	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: c, join: ['a:1', b, 'c:0', ':7401', ]}\n",
		`f:3:34: cluster.join[1] "b" is not host:port: missing port in address [SL0109]`,
		`f:3:37: cluster.join[2] "c:0" needs a port to dial, 0 is none [SL0109]`,
		`f:3:44: cluster.join[3] ":7401" needs a host to dial [SL0109]`)
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: c, join: 'a:1'}\n",
		`f:3:26: cluster.join: want a list, have the text "a:1" [SL0105]`)
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: c, join: [{a: 1}, ~]}\n",
		`f:3:27: cluster.join[0]: want text, have a mapping [SL0105]`,
		`f:3:35: cluster.join[1] is empty [SL0105]`)
}

func TestClusterNeedsAName(t *testing.T) {
	const why = ", which is not this node: clusters of different names never merge, so a wrong address cannot join two of them [SL0110]"
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {join: ['127.0.0.1:7401', '10.0.0.2:7401', '10.0.0.3:7401']}\n",
		`f:3:36: cluster.name is required to join "10.0.0.2:7401"`+why)
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: '', bind: '10.0.0.1:7401', join: ['127.0.0.1:7401']}\n",
		`f:3:51: cluster.name is required to join "127.0.0.1:7401"`+why)
	wrong(t, "version: 1\nnode: {name: a}\ncluster: {name: [], join: ['10.0.0.2:7401']}\n",
		`f:3:17: cluster.name: want text, have a list [SL0105]`)
}

func TestStages(t *testing.T) {
	stages := func(text string, lines ...string) {
		t.Helper()
		wrong(t, "version: 1\nnode: {name: a}\nstages:\n"+text, lines...)
	}
	stages("  [a, b]\n", `f:4:3: stages: want a mapping, of names to stages, have a list [SL0105]`)
	stages("  a: file\n", `f:4:6: stages.a: want a mapping, have the text "file" [SL0105]`)
	stages("  a b: {source: x}\n", `f:4:3: the name of the stage "a b" has " " in it: names are of A-Z a-z 0-9 . _ - [SL0108]`)
	stages("  '': {source: x}\n", `f:4:3: the name of the stage "" is no name: it is empty [SL0108]`)
	stages("  "+strings.Repeat("s", 256)+": {source: x}\n",
		`f:4:3: the name of the stage "`+strings.Repeat("s", 60)+`…" is longer than 255 bytes [SL0108]`)

	stages("  a:\n", `f:4:3: stages.a has to be one of source, gate and sink, and is none [SL0111]`)
	stages("  a: {from: b}\n", `f:4:3: stages.a has to be one of source, gate and sink, and is none [SL0111]`)
	stages("  a: {sink: x, source: y, from: b}\n", `f:4:3: stages.a has to be one of source, gate and sink, and is more: [source sink] [SL0111]`)
	stages("  a: {source: }\n", `f:4:7: stages.a.source is empty: it says what kind of source it is, such as file [SL0107]`)
	stages("  a: {source: {file: x}}\n", `f:4:15: stages.a.source: want text, have a mapping [SL0105]`)

	stages("  a: {source: x, from: b}\n", `f:4:18: stages.a is a source, which reads from nobody: it has no from [SL0112]`)
	stages("  a: {gate: x}\n", `f:4:3: stages.a is a gate and needs from: the outlet that it reads [SL0112]`)
	stages("  a: {sink: x, from: }\n", `f:4:16: stages.a is a sink and needs from: the outlet that it reads [SL0112]`)
	stages("  a: {sink: x, from: []}\n", `f:4:22: stages.a is a sink and needs from: the outlet that it reads [SL0112]`)

	stages("  a: {source: x, with: [1]}\n", `f:4:24: stages.a.with: want a mapping, have a list [SL0105]`)
	stages("  a: {source: x, with: y}\n", `f:4:24: stages.a.with: want a mapping, have the text "y" [SL0105]`)
}

func TestBadFrom(t *testing.T) {
	from := func(text string, lines ...string) {
		t.Helper()
		for i, line := range lines {
			lines[i] = strings.Replace(line, "from", "stages.s.from", 1)
		}
		wrong(t, "version: 1\nnode: {name: a}\nstages:\n  s:\n    sink: x\n    from: "+text+"\n", lines...)
	}
	from(`[[a]]`, `f:6:12: from[0]: want the name of an outlet, or a mapping with outlet, have a list [SL0105]`)
	from(`[a, ~]`, `f:6:15: from[1]: want the name of an outlet, or a mapping with outlet, have nothing [SL0105]`)
	from(`''`, `f:6:11: from is required: the name of the outlet to read [SL0107]`)
	from(`{}`, `f:6:11: from.outlet is required: the name of the outlet to read [SL0107]`)
	from(`[{outlet: }]`, `f:6:13: from[0].outlet is required: the name of the outlet to read [SL0107]`)
	from(`{outlet: [a]}`, `f:6:20: from.outlet: want text, have a list [SL0105]`)
	from(strings.Repeat("o", 256), `f:6:11: from "`+strings.Repeat("o", 60)+`…" is longer than 255 bytes [SL0108]`)
	from(`[a, b, {outlet: a}]`, `f:6:18: from[2] names "a" a second time, first at 6:12: one stage reads an outlet once [SL0113]`)

	from(`{outlet: a, max_demand: 0}`, `f:6:35: from.max_demand is 0, and has to be at least 1 [SL0108]`)
	from(`{outlet: a, max_demand: 0, min_demand: 5}`, `f:6:35: from.max_demand is 0, and has to be at least 1 [SL0108]`)
	from(`{outlet: a, max_demand: many, min_demand: 5000}`, `f:6:35: from.max_demand: want a whole number, have the text "many" [SL0105]`)
	from(`{outlet: a, max_demand: 1.5}`, `f:6:35: from.max_demand: want a whole number, have the number 1.5 [SL0105]`)
	from(`{outlet: a, min_demand: -1}`, `f:6:35: from.min_demand is -1, and has to be at least 0 [SL0108]`)
	from(`{outlet: a, max_demand: 10, min_demand: 10}`, `f:6:51: from.min_demand is 10, and has to be less than max_demand, which is 10 [SL0108]`)
	from(`{outlet: a, min_demand: 1000}`, `f:6:35: from.min_demand is 1000, and has to be less than max_demand, which is 1000 by default [SL0108]`)
	from(`{outlet: a, resume_window: 30}`, `f:6:38: from.resume_window: want a duration such as 30s or 1m30s, have the number 30 [SL0105]`)
	from(`{outlet: a, resume_window: -1s}`, `f:6:38: from.resume_window is -1s, and has to be at least 0 [SL0108]`)

	from(`{outlet: a, publishers: al}`, `f:6:35: from.publishers is "al", and has to be all or one, did you mean "all"? [SL0108]`)
	from(`{outlet: a, publishers: [one]}`, `f:6:35: from.publishers: want text, have a list [SL0105]`)
	from(`{outlet: a, publisher: one}`, `f:6:23: unknown key "publisher" in from, did you mean "publishers"? [SL0103]`)
	from(`{outlet: a, auto_demand: yes please}`, `f:6:36: from.auto_demand: want true or false, have the text "yes please" [SL0105]`)
	from(`{outlet: a, auto_demand: [1]}`, `f:6:36: from.auto_demand: want a mapping, have a list [SL0105]`)
	from(`{outlet: a, auto_demand: {mn: 1}}`, `f:6:37: unknown key "mn" in from.auto_demand, did you mean "min"? [SL0103]`)
	from(`{outlet: a, auto_demand: {min: 0}}`, `f:6:42: from.auto_demand.min is 0, and has to be from 1 to 2147483647 [SL0108]`)
	from(`{outlet: a, auto_demand: {max: 3000000000}}`, `f:6:42: from.auto_demand.max is 3000000000, and has to be from 1 to 2147483647 [SL0108]`)
	from(`{outlet: a, auto_demand: {max_bytes: 0}}`, `f:6:48: from.auto_demand.max_bytes is 0, and has to be at least 1 [SL0108]`)
	from(`{outlet: a, auto_demand: {min: 9, max: 8}}`, `f:6:42: from.auto_demand.min is 9, and has to be at most max, which is 8 [SL0108]`)
	from(`{outlet: a, max_demand: 200, auto_demand: {max: 100}}`, `f:6:53: from.auto_demand does not allow what it begins with, a max_demand of 200 [SL0108]`)
	from(`{outlet: a, min_demand: 600, auto_demand: {max: 500}}`, `f:6:35: from.min_demand is 600, and has to be less than max_demand, which is 500 by default [SL0108]`)
	from(`{outlet: a, expect: 0}`, `f:6:31: from.expect is 0, and has to be at least 1 [SL0108]`)
	from(`{outlet: a, expect: two}`, `f:6:31: from.expect: want a whole number, have the text "two" [SL0105]`)
}

func TestBadPolicies(t *testing.T) {
	stage := func(kind, text string, lines ...string) {
		t.Helper()
		for i, line := range lines {
			lines[i] = strings.Replace(line, " ", " stages.s.", 1)
		}
		if kind != "source" {
			text += ", from: out-of-here"
		}
		wrong(t, "version: 1\nnode: {name: a}\nstages:\n  s: {"+text+", "+kind+": x}\n", lines...)
	}
	stage("sink", `on_error: skipp`, `f:4:17: on_error is "skipp", and has to be fail, skip or dead_letter, or a mapping such as {retry: {attempts: 3}}, did you mean "skip"? [SL0108]`)
	stage("sink", `on_error: [skip]`, `f:4:17: on_error: want fail, skip or dead_letter, or a mapping with retry, have a list [SL0105]`)
	stage("sink", `on_error: {}`, `f:4:17: on_error.retry is required: how often an event is tried again, as in {retry: {attempts: 3}} [SL0107]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  s: {on_error: {retries: 3}, sink: x, from: y}\n",
		`f:4:17: stages.s.on_error.retry is required: how often an event is tried again, as in {retry: {attempts: 3}} [SL0107]`,
		`f:4:18: unknown key "retries" in stages.s.on_error: it takes retry [SL0103]`)
	wrong(t, "version: 1\nnode: {name: a}\nstages:\n  s: {on_error: {retry: 3}, sink: x, from: y}\n",
		`f:4:25: stages.s.on_error.retry: want a mapping, have the number 3 [SL0105]`)
	stage("gate", `on_error: {retry: {}}`, `f:4:25: on_error.retry.attempts is required: how often an event is tried again [SL0107]`)
	stage("gate", `on_error: {retry: {attempts: 0}}`, `f:4:36: on_error.retry.attempts is 0, and has to be at least 1 [SL0108]`)
	stage("gate", `on_error: {retry: {attempts: 1, delay: 0s}}`, `f:4:46: on_error.retry.delay is 0s, and has to be more than 0 [SL0108]`)
	stage("gate", `on_error: {retry: {attempts: 1, delay: 3}}`, `f:4:46: on_error.retry.delay: want a duration such as 30s or 1m30s, have the number 3 [SL0105]`)
	stage("gate", `on_error: {retry: {attempts: 1, delay: 2s, max_delay: 1s}}`,
		`f:4:46: on_error.retry.delay is 2s, and may be at most max_delay, which is 1s [SL0108]`)
	stage("gate", `on_error: {retry: {attempts: 1, delay: 20s}}`,
		`f:4:46: on_error.retry.delay is 20s, and may be at most max_delay, which is 10s by default [SL0108]`)
	stage("gate", `on_error: {retry: {attempts: 1, max_delay: 1ms}}`,
		`f:4:50: on_error.retry.max_delay is 1ms, and has to be at least delay, which is 100ms by default [SL0108]`)
	stage("gate", `on_error: {retry: {attempts: 1, then: retry}}`, `f:4:45: on_error.retry.then is "retry", and has to be fail, skip or dead_letter [SL0108]`)

	stage("source", `on_error: skip`, `f:4:17: on_error: a source handles no events: max_attempts says how often one of its own may come back [SL0118]`)
	stage("sink", `max_attempts: 3`, `f:4:21: max_attempts: nothing comes back to a sink: on_error says what it does with an event that fails [SL0118]`)
	stage("source", `max_attempts: 0`, `f:4:21: max_attempts is 0, and has to be at least 1, or -1 for no limit [SL0108]`)
	stage("gate", `max_attempts: -2`, `f:4:21: max_attempts is -2, and has to be at least 1, or -1 for no limit [SL0108]`)
	stage("gate", `max_attempts: some`, `f:4:21: max_attempts: want a whole number, have the text "some" [SL0105]`)

	stage("sink", `on_error: dead_letter`, `f:4:17: dead_letter is required: the name of the outlet that on_error sends to [SL0107]`)
	stage("sink", `on_error: {retry: {attempts: 1, then: dead_letter}}`, `f:4:17: dead_letter is required: the name of the outlet that on_error sends to [SL0107]`)
	stage("sink", `on_error: skip, dead_letter: dead`, `f:4:36: dead_letter: nothing would go there: a sink sends to it with on_error: dead_letter [SL0118]`)
	stage("source", `max_attempts: -1, dead_letter: dead`, `f:4:38: dead_letter: nothing would go there: without a limit of attempts none are exhausted [SL0118]`)
	stage("gate", `max_attempts: -1, dead_letter: dead`, `f:4:38: dead_letter: nothing would go there: without a limit of attempts none are exhausted [SL0118]`)
	stage("gate", `dead_letter: a b`, `f:4:20: dead_letter "a b" has " " in it: names are of A-Z a-z 0-9 . _ - [SL0108]`)
	stage("gate", `dead_letter: ""`, `f:4:20: dead_letter "" is no name: it is empty [SL0108]`)
	stage("sink", `on_error: dead_letter, dead_letter: [a]`, `f:4:43: dead_letter: want text, have a list [SL0105]`)
	stage("sink", `on_error: dead_letter, dead_letter: s`,
		`f:4:43: dead_letter: "s" is a stage of this file: dead letters go to an outlet of their own, so take another name [SL0119]`)
}

func TestGraph(t *testing.T) {
	graph := func(text string, lines ...string) {
		t.Helper()
		wrong(t, "version: 1\nnode: {name: n}\nstages:\n"+text, lines...)
	}
	graph("  a: {gate: x, from: a}\n", `f:4:22: stages.a reads from itself, so it would wait for itself [SL0114]`)
	graph("  a: {sink: x, from: [b, a]}\n", `f:4:26: stages.a reads from itself, so it would wait for itself [SL0114]`)
	graph("  a: {sink: x, from: b}\n  b: {sink: x, from: c}\n", `f:4:22: stages.a reads from "b", which is a sink and has no outlet [SL0115]`)
	graph("  a: {gate: x, from: b}\n  b: {gate: x, from: a}\n",
		`f:4:3: stages in a circle, each would wait for the one before: a -> b -> a [SL0114]`)
	graph(`
  in: {source: x}
  c: {gate: x, from: [in, b, a]}
  b: {gate: x, from: a}
  a: {gate: x, from: c}
  out: {sink: x, from: a}
  y: {gate: x, from: [z, out-of-here]}
  z: {gate: x, from: [y, a]}
`,
		`f:6:3: stages in a circle, each would wait for the one before: c -> a -> c [SL0114]`,
		`f:10:3: stages in a circle, each would wait for the one before: y -> z -> y [SL0114]`)
	local := "and \"a\" is an outlet of this file: it says which other nodes to follow, and none is [SL0117]"
	graph("  a: {source: x}\n  b: {sink: x, from: {outlet: a, expect: 2}}\n", "f:5:42: stages.b.from has expect, "+local)
	graph("  a: {source: x}\n  b: {sink: x, from: {outlet: a, publishers: one}}\n", "f:5:46: stages.b.from has publishers, "+local)
	graph("  a: {source: x, max_attempts: 2, dead_letter: dead}\n  b: {sink: x, from: {outlet: dead, publishers: one}}\n",
		`f:5:49: stages.b.from has publishers, and "dead" is an outlet of this file: it says which other nodes to follow, and none is [SL0117]`)
	// Dead letters end when all have ended who send to them.
	graph("  a: {gate: x, from: [b, dead], dead_letter: dead}\n", `f:4:3: stages in a circle, each would wait for the one before: a -> dead -> a [SL0114]`)
	graph("  a: {gate: x, from: c, dead_letter: dead}\n  b: {sink: x, from: dead}\n  c: {gate: x, from: dead}\n",
		`f:4:3: stages in a circle, each would wait for the one before: a -> dead -> c -> a [SL0114]`)
	parse(t, "stages: {a: {source: x, dead_letter: d}, b: {gate: x, from: a, dead_letter: d}, c: {sink: x, from: [b, d]}}")
	// A diamond is no circle.
	parse(t, "stages: {d: {sink: x, from: [b, c]}, c: {gate: x, from: a}, b: {gate: x, from: a}, a: {source: x}}")
}

func TestEverythingAtOnce(t *testing.T) {
	wrong(t, `versoin: 1
node: {name: "a b"}
listen: {grpc: {address: nowhere}}
cluster: {bind: "localhost:1", join: ["10.0.0.2:7401"]}
stages:
  lines: {sauce: file, with: {path: in.txt}}
  loud: {gate: map, from: {outlet: long, max_demand: 0}, form: x}
  out: {sink: file, from: out}
`,
		`f:1:1: unknown key "versoin", did you mean "version"? [SL0103]`,
		`f:1:1: version is required: this program reads version: 1 [SL0107]`,
		`f:2:14: node.name "a b" has " " in it: names are of A-Z a-z 0-9 . _ - [SL0108]`,
		`f:3:26: listen.grpc.address "nowhere" is not host:port: missing port in address [SL0109]`,
		`f:4:17: cluster.bind "localhost:1" needs an IP address: gossip takes a host name for every interface [SL0109]`,
		`f:4:39: cluster.name is required to join "10.0.0.2:7401", which is not this node: clusters of different names never merge, so a wrong address cannot join two of them [SL0110]`,
		`f:6:3: stages.lines has to be one of source, gate and sink, and is none [SL0111]`,
		`f:6:11: unknown key "sauce" in stages.lines, did you mean "source"? [SL0103]`,
		`f:7:54: stages.loud.from.max_demand is 0, and has to be at least 1 [SL0108]`,
		`f:7:58: unknown key "form" in stages.loud, did you mean "from"? [SL0103]`,
		`f:8:27: stages.out reads from itself, so it would wait for itself [SL0114]`,
	)
}
