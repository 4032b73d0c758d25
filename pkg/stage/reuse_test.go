package stage_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// A source and a gate may return the same slice at every call: what is buffered, and what
// several subscribers get, is a copy.
func TestReturnedSlicesAreFree(t *testing.T) {
	for name, d := range map[string]dispatch.Dispatcher[int]{"demand": dispatch.Demand[int](), "broadcast": dispatch.Broadcast[int]()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const events = 10_000
			made, next := make([]int, 0, 300), 0
			source := stage.NewSource(func(context.Context, int) ([]int, error) {
				made = made[:0]
				for len(made) < cap(made) && next < events { // more than is wanted
					made = append(made, next)
					next++
				}
				if next == events {
					return made, io.EOF
				}
				return made, nil
			})
			source.Dispatcher, source.Buffer = d, stage.Unlimited()
			gate := stage.NewGate(func(_ context.Context, batch []int) ([]int, error) {
				for i := range batch {
					batch[i] *= 2
				}
				return batch, nil
			})
			stage.Connect(source, gate, stage.MaxDemand(100))
			var got []int
			sink := stage.NewSink(func(_ context.Context, batch []int) error {
				got = append(got, batch...)
				return nil
			})
			stage.Connect(gate, sink, stage.MaxDemand(30))
			require.NoError(t, stage.Run(t.Context(), source, gate, sink))
			require.Len(t, got, events)
			for i, e := range got {
				require.Equal(t, 2*i, e)
			}
		})
	}
}
