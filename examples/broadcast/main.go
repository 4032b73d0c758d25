// Broadcast gives every event to every subscriber, at the pace of the slowest. One of
// them wants a part of the events only.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	numbers := stage.FromSeq(func(yield func(int) bool) {
		for i := 1; i <= 10 && yield(i); i++ {
		}
	})
	numbers.Dispatcher = dispatch.Broadcast[int]()

	sum, evens := 0, []int(nil)
	all := stage.NewSink(func(_ context.Context, events []int) error {
		for _, n := range events {
			sum += n
		}
		return nil
	})
	some := stage.NewSink(func(_ context.Context, events []int) error {
		evens = append(evens, events...)
		return nil
	})
	stage.Connect(numbers, all)
	// The filter runs at the source: what it drops costs this subscriber no demand.
	stage.Connect(stage.Where(numbers, func(n int) bool { return n%2 == 0 }), some)

	if err := stage.Run(context.Background(), numbers, all, some); err != nil {
		log.Fatal(err)
	}
	fmt.Println("sum of all:", sum)
	fmt.Println("even ones:", evens)
}
