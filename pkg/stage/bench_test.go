package stage_test

import (
	"context"
	"io"
	"testing"

	"github.com/sluicenet/sluice/pkg/stage"
)

func BenchmarkLocal(b *testing.B) {
	left := b.N
	src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
		n = min(n, left)
		left -= n
		if left == 0 {
			return make([]int, n), io.EOF
		}
		return make([]int, n), nil
	})
	g := stage.NewGate(stage.Map(func(i int) int { return 2 * i }))
	snk := stage.NewSink(func(_ context.Context, ev []int) error { return nil })
	stage.Connect(src, g)
	stage.Connect(g, snk)
	b.ReportAllocs()
	if err := stage.Run(b.Context(), src, g, snk); err != nil {
		b.Fatal(err)
	}
}
