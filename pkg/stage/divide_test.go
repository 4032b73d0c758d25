package stage

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluicenet/sluice/internal/credit"
)

func TestDivide(t *testing.T) {
	for _, test := range []struct {
		n           int64
		owing, want []int64
	}{
		{10, nil, []int64{}},
		{10, []int64{7}, []int64{10}},
		{10, []int64{0, 0, 0}, []int64{4, 3, 3}},
		{10, []int64{5, 0}, []int64{2, 8}}, // 7 and 8
		{3, []int64{5, 0}, []int64{0, 3}},  // the level of the other is not reached
		{4, []int64{9, 1, 1}, []int64{0, 2, 2}},
		{1, []int64{2, 2}, []int64{1, 0}},
		{0, []int64{2, 0}, []int64{0, 0}},
		{credit.Unbounded, []int64{3, 0}, []int64{credit.Unbounded, credit.Unbounded}},
		{10, []int64{credit.Unbounded, 0}, []int64{0, 10}},
	} {
		require.Equal(t, test.want, divide(test.n, test.owing), "%d of %v", test.n, test.owing)
	}
}

// The sum is kept, and those who got something owe as much as each other, but for one,
// and no more than those who got nothing, but for that one.
func TestDivideLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1000).Draw(t, "n")
		owing := rapid.SliceOfN(rapid.Int64Range(0, 300), 1, 8).Draw(t, "owing")
		before := slices.Clone(owing)
		sum := int64(0)
		var filled, passed []int64
		for i, x := range divide(n, owing) {
			require.GreaterOrEqual(t, x, int64(0))
			sum += x
			if x > 0 {
				filled = append(filled, owing[i]+x)
			} else {
				passed = append(passed, owing[i])
			}
		}
		require.Equal(t, n, sum)
		require.Equal(t, before, owing, "what is owed is only read")
		if len(filled) > 0 {
			require.LessOrEqual(t, slices.Max(filled)-slices.Min(filled), int64(1))
		}
		if len(filled) > 0 && len(passed) > 0 {
			require.LessOrEqual(t, slices.Max(filled)-slices.Min(passed), int64(1))
		}
	})
}
