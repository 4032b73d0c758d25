package dispatch_test

import (
	"fmt"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// give dispatches events of one lane and prints who gets how many.
func give(d dispatch.Dispatcher[string], events int) {
	for {
		next, ok := d.Next(func(int) int { return events })
		if !ok {
			fmt.Println("left over:", events)
			return
		}
		fmt.Println(next.N, "to", next.To)
		events -= next.N
	}
}

func join(d dispatch.Dispatcher[string], ids ...dispatch.ID) {
	for _, id := range ids {
		if err := d.Join(id, dispatch.Terms{Partition: dispatch.NoPartition}); err != nil {
			fmt.Println(err)
		}
	}
}

func ExampleDemand() {
	d := dispatch.Demand[string]()
	join(d, 1, 2)
	d.Ask(1, 10)
	d.Ask(2, 4)
	give(d, 12)
	give(d, 5)
	// Output:
	// 10 to [1]
	// 2 to [2]
	// left over: 0
	// 2 to [2]
	// left over: 3
}

func ExampleBroadcast() {
	d := dispatch.Broadcast[string]()
	join(d, 1, 2)
	d.Ask(1, 10)
	give(d, 6) // 2 has not asked yet
	d.Ask(2, 4)
	give(d, 6)
	// Output:
	// left over: 6
	// 4 to [1 2]
	// left over: 2
}

func ExamplePartition() {
	d := dispatch.Partition(2, func(word string) int { return len(word) })
	fmt.Println(d.Lane("ox"), d.Lane("cat"))
	fmt.Println(d.Join(1, dispatch.Terms{Partition: 0}))
	fmt.Println(d.Join(2, dispatch.Terms{Partition: 0}))
	fmt.Println(d.Join(3, dispatch.Terms{Partition: 2}))
	// Output:
	// 0 1
	// <nil>
	// the partition has a subscriber: 0
	// no such partition: 2 is not from 0 to 1
}
