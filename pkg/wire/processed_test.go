package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/credit"
)

// What is processed out of order is told by several goroutines, and one may overtake
// another: nothing that was told is forgotten.
func TestProcessedIsNeverTakenBack(t *testing.T) {
	c := NewConsumer(1, 1, 0)
	require.NoError(t, c.Ask(20))
	open := c.Open()
	require.NoError(t, c.Opened(1, open.Granted, 1))
	take, err := c.Batch(1, 20)
	require.NoError(t, err)
	require.True(t, take)
	// ranges are given by their bounds, one after the other.
	ranges := func(bounds []int64) []credit.Range {
		all := make([]credit.Range, 0, len(bounds)/2)
		for i := 0; i < len(bounds); i += 2 {
			all = append(all, credit.Range{First: bounds[i], Last: bounds[i+1]})
		}
		return all
	}
	f := func(acked int64, done []int64, want int64, wantDone ...int64) {
		t.Helper()
		require.NoError(t, c.Processed(acked, ranges(done), true))
		require.Equal(t, want, c.Acked())
		require.ElementsMatch(t, ranges(wantDone), c.Done())
	}
	f(0, []int64{3, 3, 5, 5}, 0, 3, 3, 5, 5)
	f(0, []int64{3, 3}, 0, 3, 3, 5, 5) // it was overtaken
	f(1, []int64{3, 6}, 1, 3, 6)
	f(1, nil, 1, 3, 6)
	f(2, nil, 6)
	f(6, []int64{9, 20}, 6, 9, 20)
	require.Error(t, c.Processed(5, nil, true))
	f(20, nil, 20)
}
