package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Components are compared with what they mean: stages that are reached from each
// other.
func TestComponents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "stages")
		next := make([][]int, n)
		reach := make([][]bool, n)
		for v := range n {
			next[v] = rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, n, rapid.ID).Draw(t, "next")
			reach[v] = make([]bool, n)
			reach[v][v] = true
			for _, w := range next[v] {
				reach[v][w] = true
			}
		}
		for via := range n {
			for v := range n {
				for w := range n {
					reach[v][w] = reach[v][w] || reach[v][via] && reach[via][w]
				}
			}
		}

		of := map[int]int{}
		for i, group := range components(next) {
			for _, v := range group {
				require.NotContains(t, of, v, "each in one")
				of[v] = i
			}
			if len(group) < 2 {
				continue
			}
			path := shortest(next, group)
			require.Equal(t, slices.Min(group), path[0])
			for i, v := range path {
				require.Contains(t, group, v)
				require.Contains(t, next[v], path[(i+1)%len(path)], "it is a way")
			}
		}
		require.Len(t, of, n)
		for v := range n {
			for w := range n {
				require.Equal(t, reach[v][w] && reach[w][v], of[v] == of[w], "%d and %d", v, w)
			}
		}
	})
}
