package builtin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilter(t *testing.T) {
	got, err := through(t, one(t, Env{}, `{gate: filter, from: x, with: {expr: 'event contains "a" && len(event) > 1'}}`), "a", "ab", "bc", "ca")
	require.NoError(t, err)
	require.Equal(t, []string{"ab", "ca"}, got)
}

func TestMap(t *testing.T) {
	got, err := through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'upper(event) + "!"'}}`), "a", "", "é")
	require.NoError(t, err)
	require.Equal(t, []string{"A!", "!", "É!"}, got)

	got, err = through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'string(fromJSON(event).n)'}}`), `{"n": 1}`, `{"n": "x"}`, `{}`)
	require.NoError(t, err)
	require.Equal(t, []string{"1", "x", "<nil>"}, got)
}

func TestLenCountsCharacters(t *testing.T) {
	got, err := through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'string(len(event))'}}`), "ab", "äö", "日本語")
	require.NoError(t, err)
	require.Equal(t, []string{"2", "2", "3"}, got)
}

func TestExpressionProblems(t *testing.T) {
	wrong := func(gate, expr, want string) {
		t.Helper()
		require.Equal(t, want, problems(t, "  s:\n    gate: "+gate+"\n    from: x\n    with:\n      expr: "+expr+"\n"))
	}
	wrong("filter", ``, `f:8:7: stages.s.with.expr: is required [SL0120]`)
	wrong("filter", `" "`, `f:8:13: stages.s.with.expr: is required [SL0120]`)
	wrong("filter", `[a]`, `f:8:13: stages.s.with.expr: want text, have a list [SL0105]`)
	wrong("filter", `upper(event)`, `f:8:13: stages.s.with.expr: expected bool, but got string [SL0120]`)
	wrong("map", `len(event)`, `f:8:13: stages.s.with.expr: expected string, but got int [SL0120]`)
	wrong("map", `fromJSON(event).x`, `f:8:13: stages.s.with.expr: expected string, but the type is not known before it runs: compare it with something, or use string(...) [SL0120]`)
	wrong("map", `upper(evnt)`, `f:8:13: stages.s.with.expr: unknown name evnt, at column 7 of it, did you mean "event"? [SL0120]`)
	wrong("map", `uper(event)`, `f:8:13: stages.s.with.expr: unknown name uper, at column 1 of it, did you mean "upper"? [SL0120]`)
	wrong("filter", `event.level == 3`, `f:8:13: stages.s.with.expr: type string has no field level, at column 7 of it [SL0120]`)
	wrong("filter", `event > 3`, `f:8:13: stages.s.with.expr: invalid operation: > (mismatched types string and int), at column 7 of it [SL0120]`)
	wrong("filter", `event matches "("`, `f:8:13: stages.s.with.expr: error parsing regexp: missing closing ): `+"`(`"+`, at column 7 of it [SL0120]`)
	wrong("filter", `event &&`, `f:8:13: stages.s.with.expr: unexpected token EOF, at column 8 of it [SL0120]`)
	wrong("filter", "|\n        event\n        == 3", `f:8:13: stages.s.with.expr: invalid operation: == (mismatched types string and int), at line 2, column 1 of it [SL0120]`)
}

func TestExpressionFails(t *testing.T) {
	got, err := through(t, one(t, Env{}, `{gate: filter, from: x, with: {expr: 'int(event) > 1'}}`), "1", "2", "x\ny"+strings.Repeat("é", 200), "3")
	first, _, _ := strings.Cut(err.Error(), "\n")
	require.Equal(t, `stage "s": expr: invalid operation: int(x y`+strings.Repeat("é", 94)+`…, for the event "x\ny`+strings.Repeat("é", 57)+`…"`, first)
	require.ErrorAs(t, err, new(*Failure))
	require.Equal(t, []string{"2"}, got, "what is before it is done")

	_, err = through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'string(int(event))'}}`), "1", "", "3")
	require.ErrorContains(t, err, `stage "s": expr: invalid operation: int(), at column 8 of it, for the event ""`)
}

// An expression cannot take all the memory, and its panic is an error.
func TestHostileExpressions(t *testing.T) {
	_, err := through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'string(len(map(1..10000000, # * 2)))'}}`), "a")
	require.ErrorContains(t, err, "memory budget exceeded")

	_, err = through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'repeat(event, 10000000)'}}`), "a")
	require.ErrorContains(t, err, "memory budget exceeded")

	_, err = through(t, one(t, Env{}, `{gate: map, from: x, with: {expr: 'split(event, ",")[9]'}}`), "a")
	require.ErrorContains(t, err, "index out of range")
}
