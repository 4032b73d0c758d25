package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func nodes(offers []Offer) []string {
	var names []string
	for _, o := range offers {
		names = append(names, o.Node)
	}
	return names
}

func TestRank(t *testing.T) {
	s := state(catalog("a", 1, 1, "x"), catalog("b", 1, 1, "x"), catalog("c", 1, 1, "x"), catalog("d", 1, 1, "y"))
	ended := catalog("e", 1, 1, "x")
	ended.Outlets[0].Ended = true
	s.Put(ended)
	alive := []Candidate{{"a", "west"}, {"b", "east"}, {"c", "west"}, {"d", "east"}, {"e", "east"}, {"f", "east"}}

	// The weights decide, and have to stay what they are: subscribers would move
	// when their nodes are upgraded.
	require.Equal(t, uint64(0x22b9bbe377f45c14), weight("x", "sub", "a"))
	byWeight := nodes(s.Rank("x", "sub", alive, ""))
	require.Equal(t, []string{"b", "c", "a", "e"}, byWeight)

	require.Equal(t, []string{"b", "c", "a", "e"}, nodes(s.Rank("x", "sub", alive, "east")), "ended comes last, also nearby")
	require.Equal(t, []string{"c", "a", "b", "e"}, nodes(s.Rank("x", "sub", alive, "west")))
	require.Equal(t, byWeight, nodes(s.Rank("x", "sub", alive, "north")), "nobody there")
	require.Equal(t, []string{"a", "e"}, nodes(s.Rank("x", "sub", []Candidate{{"e", ""}, {"a", ""}}, "")), "who is not alive is left out")
	require.Equal(t, []string{"b", "c", "a"}, nodes(s.Rank("x", "sub", []Candidate{{"a", ""}, {"b", "west"}, {"c", ""}}, "")),
		"who knows no zone has no neighbours")
	require.Empty(t, s.Rank("x", "sub", []Candidate{{"d", ""}}, ""), "alive, but offers something else")

	got, ok := s.Pick("x", "sub", alive, "west")
	require.True(t, ok)
	require.Equal(t, Offer{"c", got.Incarnation, Outlet{Name: "x", Dispatcher: "demand"}}, got)
	_, ok = s.Pick("x", "sub", nil, "")
	require.False(t, ok)
}

// No two triples of names may write the same bytes.
func TestWeightKeepsNamesApart(t *testing.T) {
	require.NotEqual(t, weight("ab", "c", "d"), weight("a", "bc", "d"))
	require.NotEqual(t, weight("a", "b", "c"), weight("a", "c", "b"))
}

func TestSubscribersSpreadEvenly(t *testing.T) {
	const n, subscribers = 5, 10_000
	var s State
	var alive []Candidate
	for i := range n {
		// Names that differ in their last byte only: plain FNV is at its worst.
		node := fmt.Sprintf("node-%d", i)
		s.Put(catalog(node, 1, 1, "x"))
		alive = append(alive, Candidate{Node: node})
	}
	got := map[string]int{}
	for i := range subscribers {
		o, ok := s.Pick("x", fmt.Sprintf("host/sink-%d", i), alive, "")
		require.True(t, ok)
		got[o.Node]++
	}
	for node, count := range got {
		require.InDelta(t, subscribers/n, count, subscribers/n/10, node)
	}
	require.Len(t, got, n)
}

func TestRankLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		var alive []Candidate
		for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
			c := catalog(fmt.Sprintf("n%d", i), 1, 1, "x")
			c.Outlets[0].Ended = rapid.Bool().Draw(t, "ended")
			s.Put(c)
			alive = append(alive, Candidate{c.Node, rapid.SampledFrom([]string{"", "e", "w"}).Draw(t, "zone")})
		}
		subscriber := rapid.String().Draw(t, "subscriber")
		zone := rapid.SampledFrom([]string{"", "e", "w"}).Draw(t, "own zone")
		ranked := s.Rank("x", subscriber, alive, zone)

		require.ElementsMatch(t, s.Providers("x"), ranked, "everybody once")
		if len(alive) == 0 {
			return
		}
		twice := append(alive[:len(alive):len(alive)], Candidate{alive[0].Node, "w"})
		shuffled := rapid.Permutation(twice).Draw(t, "shuffled")
		require.Equal(t, s.Rank("x", subscriber, twice, zone), s.Rank("x", subscriber, shuffled, zone),
			"the order of the candidates does not matter, also if one is there twice")

		gone := rapid.IntRange(0, len(alive)-1).Draw(t, "gone")
		rest := slices.Delete(slices.Clone(alive), gone, gone+1)
		without := slices.DeleteFunc(slices.Clone(ranked), func(o Offer) bool { return o.Node == alive[gone].Node })
		require.Equal(t, nodes(without), nodes(s.Rank("x", subscriber, rest, zone)), "one that goes moves nobody else")
	})
}
