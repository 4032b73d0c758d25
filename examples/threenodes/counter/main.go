// Counter is node a: it publishes the numbers up to 20.
package main

import (
	"context"
	"log"

	"github.com/sluicenet/sluice/examples/threenodes/ports"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	n := node.New(node.Config{Name: "a", Cluster: "demo", Gossip: ports.Seeds[0], Join: ports.Seeds})

	counter := stage.FromSeq(func(yield func(int) bool) {
		for i := 1; i <= 20 && yield(i); i++ {
		}
	})
	node.Publish(n, ports.Numbers, counter)

	if err := stage.Run(context.Background(), n, counter); err != nil {
		log.Fatal(err)
	}
}
