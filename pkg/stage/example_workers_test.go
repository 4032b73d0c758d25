package stage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/sluicenet/sluice/pkg/stage"
)

// A pool runs each event by itself, so many at once. One that fails costs its own event.
func ExampleNewPool() {
	orders := stage.FromChan(words("apples pears plums figs"))
	var delivered atomic.Int64
	deliveries := stage.NewPool(8, func(_ context.Context, order string) error {
		if order == "plums" {
			return errors.New("out of season")
		}
		delivered.Add(1)
		return nil
	})
	deliveries.OnFailure = func(order string, err error) { fmt.Printf("%s: %v\n", order, err) }
	stage.Connect(orders, deliveries)
	fmt.Println(stage.Run(context.Background(), orders, deliveries))
	fmt.Println(delivered.Load(), "delivered")
	// Output:
	// plums: out of season
	// <nil>
	// 3 delivered
}

// A worker that fails is started again with the same event, in the same slot. Its ctx
// says how often it was tried.
func ExampleNewWorkers() {
	orders := stage.FromChan(words("apples pears"))
	deliveries := stage.NewWorkers(func(ctx context.Context, order string) error {
		d, _ := stage.Delivery(ctx)
		if order == "apples" && d.Attempts < 2 {
			fmt.Println(order, "failed")
			return errors.New("nobody at home")
		}
		fmt.Println(order, "delivered")
		return nil
	})
	deliveries.Restart = stage.OnFailure
	deliveries.Tolerance = stage.Tolerance{Restarts: 5}
	stage.Connect(orders, deliveries, stage.MaxDemand(1)) // one slot
	fmt.Println(stage.Run(context.Background(), orders, deliveries))
	// Output:
	// apples failed
	// apples failed
	// apples delivered
	// pears delivered
	// <nil>
}

// A pipeline that survives its stages: they find each other by name, and when one fails
// it is restarted together with those behind it, from fresh state.
func ExampleSupervise() {
	var names stage.Names
	starts := 0
	counter := func() stage.Runner {
		starts++
		start, next := starts, 0
		src := stage.NewSource(func(context.Context, int) ([]int, error) {
			next++
			switch {
			case next == 3 && start == 1:
				return nil, errors.New("the sensor is gone")
			case next == 3:
				return []int{next}, io.EOF
			}
			return []int{next}, nil
		})
		src.Name = "counter"
		if err := stage.Register(&names, src); err != nil {
			panic(err) // the child has failed
		}
		return src
	}
	printer := func() stage.Runner {
		sink := stage.NewSink(func(_ context.Context, events []int) error {
			fmt.Println(events)
			return nil
		})
		stage.Connect(stage.Named[int](&names, "counter"), sink, stage.MaxDemand(1))
		return sink
	}
	pipeline := stage.Supervise(stage.RestForOne, counter, printer)
	pipeline.OnRestart = func(child int, why error) { fmt.Println("restart", child, why) }
	fmt.Println(pipeline.Run(context.Background()))
	// Output:
	// [1]
	// [2]
	// restart 0 stage "counter": the sensor is gone
	// [1]
	// [2]
	// [3]
	// <nil>
}
