// Doubler is node b: it doubles numbers, wherever they come from.
package main

import (
	"context"
	"log"

	"github.com/sluicenet/sluice/examples/threenodes/ports"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	n := node.New(node.Config{Name: "b", Cluster: "demo", Gossip: ports.Seeds[1], Join: ports.Seeds})

	doubler := stage.NewGate(stage.Map(func(n int) int { return 2 * n }))
	stage.Connect(node.Outlet(n, ports.Numbers), doubler)
	node.Publish(n, ports.Doubled, doubler)

	if err := stage.Run(context.Background(), n, doubler); err != nil {
		log.Fatal(err)
	}
}
