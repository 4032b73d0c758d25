package stage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// DBX-01: everybody who was declared has subscribed before the first one asks, so that
// what a broadcast holds already passes by nobody.
func TestNothingPassesByADeclaredConsumer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := stage.NewSource[int](nil)
		src.Dispatcher = dispatch.Broadcast[int]()
		one, first := keeper()
		two, second := keeper()
		stage.Connect(src, one)
		stage.Connect(src, two)
		require.NoError(t, src.Push(1, 2, 3))
		src.Finish()
		require.NoError(t, stage.Run(t.Context(), src, one, two))
		require.Equal(t, []int{1, 2, 3}, first.get())
		require.Equal(t, []int{1, 2, 3}, second.get())
	})
}
