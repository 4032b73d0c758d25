// Partitions sends all events of one key to the same subscriber, in order. A slow
// partition does not hold up the others.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

type reading struct {
	sensor int
	value  float64
}

func main() {
	readings := stage.FromSeq(func(yield func(reading) bool) {
		for i := range 12 {
			if !yield(reading{sensor: i % 3, value: float64(i)}) {
				return
			}
		}
	})
	readings.Dispatcher = dispatch.Partition(3, func(r reading) int { return r.sensor })

	runners := []stage.Runner{readings}
	values := make([][]float64, 3)
	for p := range 3 {
		sink := stage.NewSink(func(_ context.Context, events []reading) error {
			for _, r := range events {
				values[p] = append(values[p], r.value)
			}
			return nil
		})
		stage.Connect(readings, sink, stage.InPartition(p))
		runners = append(runners, sink)
	}
	if err := stage.Run(context.Background(), runners...); err != nil {
		log.Fatal(err)
	}
	for p, v := range values {
		fmt.Printf("sensor %d: %v\n", p, v)
	}
}
