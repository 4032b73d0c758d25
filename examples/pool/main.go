// Pool handles events in parallel, four at a time. It asks for another one whenever a
// worker is done, so a slow worker costs its own slot and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	orders := stage.FromSeq(func(yield func(int) bool) {
		for i := 1; i <= 20 && yield(i); i++ {
		}
	})

	var delivered atomic.Int64
	deliveries := stage.NewPool(4, func(_ context.Context, order int) error {
		if order == 13 {
			return errors.New("nobody at home")
		}
		delivered.Add(1)
		return nil
	})
	deliveries.OnFailure = func(order int, err error) { fmt.Printf("order %d: %v\n", order, err) }
	stage.Connect(orders, deliveries)

	if err := stage.Run(context.Background(), orders, deliveries); err != nil {
		log.Fatal(err)
	}
	fmt.Println("delivered:", delivered.Load())
}
