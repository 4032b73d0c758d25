package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSuggest(t *testing.T) {
	of := func(want, word string, candidates ...string) {
		t.Helper()
		require.Equal(t, want, Suggest(word, candidates))
	}
	of("name", "nmae", "labels", "name")
	of("name", "NAME", "name")
	of("path", "pth", "path")
	of("from", "form", "with", "from")
	of("max_demand", "maxdemand", "min_demand", "max_demand")
	of("min_demand", "min-demand", "max_demand", "min_demand")
	of("filter", "fitler", "file", "filter")
	of("ö", "Ö", "o", "ö")
	of("bat", "cat", "bat", "hat") // the first of those that are equally close
	of("", "zone", "name")
	of("", "min", "max")
	of("", "x", "y")
	of("", "", "a", "bb")
	of("", "name")
}

func TestDistance(t *testing.T) {
	d := func(want int, a, b string) {
		t.Helper()
		require.Equal(t, want, distance([]rune(a), []rune(b)))
		require.Equal(t, want, distance([]rune(b), []rune(a)))
	}
	d(0, "", "")
	d(3, "", "abc")
	d(3, "kitten", "sitting")
	d(1, "ab", "ba")
	d(3, "ca", "abc") // no edit between letters that were swapped
	d(2, "abcd", "badc")
}

func TestDistanceLaws(t *testing.T) {
	word := rapid.SliceOfN(rapid.RuneFrom([]rune("abc")), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		got := distance(a, b)
		require.Equal(t, got, distance(b, a))
		require.Equal(t, string(a) == string(b), got == 0)
		require.LessOrEqual(t, got, max(len(a), len(b)))
		require.GreaterOrEqual(t, got, max(len(a)-len(b), len(b)-len(a)))
	})
}
