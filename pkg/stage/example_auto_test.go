package stage_test

import (
	"context"
	"fmt"
	"io"

	"github.com/sluicenet/sluice/pkg/stage"
)

// A consumer that sizes its demand by itself. It begins as any other, and says where it
// stands. How large its demand becomes is a matter of how fast it is, and how far away.
func ExampleAutoDemand() {
	src := stage.NewSource(func(context.Context, int) ([]int, error) { return make([]int, 100), io.EOF })
	sink := stage.NewSink(func(context.Context, []int) error { return nil })
	sub := stage.Connect(src, sink, stage.AutoDemand(stage.Auto{Max: 10_000, MaxBytes: 4 << 20}))
	err := stage.Run(context.Background(), src, sink)
	fmt.Println(sub.Info().Demand, sub.Info().Why, err)
	// Output:
	// 1000 it begins here <nil>
}
