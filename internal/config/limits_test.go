package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever a file holds, reading it costs little.
func TestTooMuch(t *testing.T) {
	cheap := func(name, text, want string) {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", []byte(text))
			require.Error(t, err)
			begin := err.Error()
			begin = begin[:min(len(begin), 200)]
			require.Contains(t, begin, want)
			require.Less(t, time.Since(start), 10*time.Second)
		})
	}
	cheap("large", strings.Repeat("#", maxBytes+1), `f: the file is larger than 1048576 bytes [SL0106]`)
	cheap("deep, in brackets", strings.Repeat("[", 100_000), `f:1:101: nested more than 100 deep [SL0106]`)
	cheap("deep, in braces", strings.Repeat("{a: ", 100_000), `nested more than 100 deep [SL0106]`)
	cheap("deep, in dashes", strings.Repeat("- ", 100_000), `nested more than 100 deep [SL0106]`)
	cheap("deep, in question marks", strings.Repeat("? ", 100_000), `nested more than 100 deep [SL0106]`)
	cheap("wide", "a: ["+strings.Repeat("1,", 400_000)+"]", `f:1:4: this stands for more than 100000 values [SL0106]`)
	cheap("contains itself", "a: &a [1, *a]\n", `f:1:11: the alias *a stands for something that contains it [SL0106]`)
	cheap("is its own key", "a: &a {*a : 1}\n", `f:1:8: the alias *a stands for something that contains it [SL0106]`)

	laughs := "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	deep := "a0: &a0 lol\n"
	for i := range 30 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9))
		deep += fmt.Sprintf("a%d: &a%d [[[[*a%d]]]]\n", i+1, i+1, i)
	}
	cheap("a billion laughs", laughs, `f:6:5: this stands for more than 100000 values [SL0106]`)
	cheap("deep, by aliases", deep, `nested more than 100 deep [SL0106]`)

	// Of each of these, a search that is not linear would take minutes.
	const n = 15_000
	stages := func(line string, more string) string {
		var b strings.Builder
		b.WriteString("version: 1\nnode: {name: a}\nstages:\n")
		for i := range n {
			fmt.Fprintf(&b, line, i, i+1)
		}
		return b.String() + more
	}
	cheap("a long chain", stages("  s%d: {gate: x, from: s%d}\n", "  s15000: {sink: x, from: s15000}\n"),
		`f:15004:27: stages.s15000 reads from itself`)
	cheap("many circles", stages("  s%d: {gate: x, from: [s%d, s0]}\n", "  s15000: {gate: x, from: s0}\n"),
		`f:4:3: stages in a circle, each would wait for the one before: s0 -> s1 -> s0 [SL0114]`)
	cheap("a large circle", stages("  s%d: {gate: x, from: s%d}\n", "  s15000: {gate: x, from: s0}\n"),
		`f:4:3: stages in a circle, each would wait for the one before: s0 -> s15000 -> s14999 -> `)
	cheap("many unknown keys", stages("  s%d: {source: x, sauce%d: y}\n", ""), `f:4:19: unknown key "sauce1" in stages.s0: it takes source`)
	cheap("long unknown keys", strings.Repeat("k", 1000)+": x\n", `unknown key "kkk`)
}
