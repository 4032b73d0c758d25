package stage_test

import (
	"context"
	"strings"
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

// The errors of a run stand in the order of its stages: the cause comes first, however
// the stages race to their ends.
func TestErrorsStandInTheOrderOfTheStages(t *testing.T) {
	for range 200 {
		src := counter(10)
		gate := stage.NewGate(func(context.Context, []int) ([]int, error) { return nil, errOops })
		sink, _ := keeper()
		gate.Name, sink.Name = "first", "second"
		stage.Connect(src, gate)
		stage.Connect(gate, sink)
		err := stage.Run(t.Context(), src, gate, sink)
		require.ErrorIs(t, err, errOops)
		lines := strings.Split(err.Error(), "\n")
		require.True(t, strings.HasPrefix(lines[0], `stage "first": `), err)
		require.True(t, strings.HasPrefix(lines[1], `stage "second": `), err)
	}
}
