// Quickstart is a pipeline in one process: numbers, doubled, printed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	// The source counts to 20. It is only called when somebody wants numbers, and told
	// how many.
	next := 0
	counter := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		var events []int
		for len(events) < demand {
			if next == 20 {
				return events, io.EOF
			}
			next++
			events = append(events, next)
		}
		return events, nil
	})

	// The gate doubles each number.
	doubler := stage.NewGate(stage.Map(func(n int) int { return 2 * n }))

	// The sink prints them, and sets the pace of the whole pipeline.
	printer := stage.NewSink(func(_ context.Context, events []int) error {
		fmt.Println(events)
		return nil
	})

	stage.Connect(counter, doubler)
	stage.Connect(doubler, printer, stage.MaxDemand(10), stage.MinDemand(5))

	if err := stage.Run(context.Background(), counter, doubler, printer); err != nil {
		log.Fatal(err)
	}
}
