package stage

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A queue is what a slice is that is appended to and cut from. What was taken stays
// readable until the next push or sweep and is let go of then, and the queue takes no
// more room than a few times of what it has held at once.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue[int]
		var model, taken []int
		next, most := 1, 0
		n := func(t *rapid.T) int { return rapid.IntRange(0, len(model)).Draw(t, "n") }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				items := make([]int, rapid.IntRange(0, 20).Draw(t, "n"))
				for i := range items {
					items[i] = next
					next++
				}
				q.push(items...)
				model, taken = append(model, items...), nil
				most = max(most, len(model))
			},
			"take": func(t *rapid.T) {
				n := n(t)
				got := q.take(n)
				require.Equal(t, append([]int{}, model[:n]...), append([]int{}, got...))
				_ = append(got, -1) // may not reach what is queued
				taken = got
				model = model[n:]
			},
			"cut": func(t *rapid.T) {
				n := n(t)
				q.cut(n)
				model = model[:len(model)-n]
			},
			"sweep": func(t *rapid.T) {
				q.sweep()
				for _, v := range taken {
					require.Zero(t, v, "a taken item is still held")
				}
				taken = nil
			},
			"": func(t *rapid.T) {
				require.Equal(t, append([]int{}, model...), append([]int{}, q.items()...))
				require.Equal(t, len(model), q.len())
				for _, v := range taken {
					require.NotZero(t, v, "a taken item is gone already")
				}
				require.LessOrEqual(t, cap(q.buf), 4*most+64)
			},
		})
	})
}
