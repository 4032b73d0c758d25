// Cluster is a pipeline on three nodes, all of them in this process: they talk over
// gRPC and find each other by gossip, as they would on three machines.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"

	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

var (
	numbers = wire.JSON[int]("numbers")
	squares = wire.JSON[int]("squares")
)

// seeds are where the nodes meet.
var seeds = []string{"127.0.0.1:7956", "127.0.0.1:7957", "127.0.0.1:7958"}

func newNode(name string, i int) *node.Node {
	return node.New(node.Config{
		Name: name, Cluster: "squares", Gossip: seeds[i], Join: seeds,
		Logger: slog.New(slog.DiscardHandler),
	})
}

func main() {
	a, b, c := newNode("a", 0), newNode("b", 1), newNode("c", 2)

	source := stage.FromSeq(func(yield func(int) bool) {
		for i := 1; i <= 1000 && yield(i); i++ {
		}
	})
	node.Publish(a, numbers, source)

	gate := stage.NewGate(stage.Map(func(n int) int { return n * n }))
	stage.Connect(node.Outlet(b, numbers), gate)
	node.Publish(b, squares, gate)

	sum := 0
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		for _, n := range events {
			sum += n
		}
		return nil
	})
	stage.Connect(node.Outlet(c, squares), sink)

	var all sync.WaitGroup
	for _, runners := range [][]stage.Runner{{a, source}, {b, gate}, {c, sink}} {
		all.Go(func() {
			if err := stage.Run(context.Background(), runners...); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	fmt.Println("sum of the squares up to 1000:", sum)
}
