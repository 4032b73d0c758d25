// Printer is node c: it prints doubled numbers.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicenet/sluice/examples/threenodes/ports"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	n := node.New(node.Config{Name: "c", Cluster: "demo", Gossip: ports.Seeds[2], Join: ports.Seeds})

	printer := stage.NewSink(func(_ context.Context, events []int) error {
		fmt.Println(events)
		return nil
	})
	stage.Connect(node.Outlet(n, ports.Doubled), printer, stage.MaxDemand(10), stage.MinDemand(5))

	if err := stage.Run(context.Background(), n, printer); err != nil {
		log.Fatal(err)
	}
}
