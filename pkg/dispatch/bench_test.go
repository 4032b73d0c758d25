package dispatch_test

import (
	"fmt"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// What a subscriber costs among many. Each has asked for something, as those have that
// come and never read.
func BenchmarkSubscribers(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		for kind, d := range map[string]dispatch.Dispatcher[int]{"demand": dispatch.Demand[int](), "broadcast": dispatch.Broadcast[int]()} {
			id := dispatch.ID(0)
			join := func() dispatch.ID {
				id++
				_ = d.Join(id, dispatch.Terms{Partition: dispatch.NoPartition})
				d.Ask(id, int64(100+id%7))
				return id
			}
			for range n {
				join()
			}
			b.Run(fmt.Sprintf("%s/%d/join+leave", kind, n), func(b *testing.B) {
				for b.Loop() {
					id := join()
					_ = d.Demand()
					d.Leave(id)
					_ = d.Demand()
				}
			})
			if kind == "broadcast" {
				continue // what it delivers goes to all of them
			}
			b.Run(fmt.Sprintf("%s/%d/ask+deliver", kind, n), func(b *testing.B) {
				for b.Loop() {
					next, ok := d.Next(func(int) int { return 10 })
					if !ok {
						b.Fatal("nobody wants any")
					}
					_ = d.Demand()
					d.Ask(next.To[0], 10)
					_ = d.Demand()
				}
			})
		}
	}
}
