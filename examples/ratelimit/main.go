// Ratelimit asks by hand: three events at once, and three more at every tick.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	numbers := stage.FromSeq(func(yield func(int) bool) {
		for i := 1; i <= 9 && yield(i); i++ {
		}
	})
	limited := stage.NewSink(func(_ context.Context, events []int) error {
		fmt.Println(events)
		return nil
	})
	sub := stage.Connect(numbers, limited, stage.Manual())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = sub.Ask(3) // an error says that it is over
			case <-sub.Done():
				return
			}
		}
	}()
	begin := time.Now()
	if err := stage.Run(ctx, numbers, limited); err != nil {
		log.Fatal(err)
	}
	fmt.Println("at least 300 ms:", time.Since(begin) >= 300*time.Millisecond)
}
