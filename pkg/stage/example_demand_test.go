package stage_test

import (
	"context"
	"fmt"
	"io"

	"github.com/sluicenet/sluice/pkg/stage"
)

// told is an outlet that says aloud what it is asked for.
type told struct{ stage.Outlet[int] }

func (o told) Attach(terms stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	up, err := o.Outlet.Attach(terms, r)
	return aloud{up}, err
}

type aloud struct{ stage.Upstream[int] }

func (u aloud) Ask(n, acked int64, _ ...stage.Range) error {
	fmt.Printf("ask for %d, %d processed\n", n, acked)
	return u.Upstream.Ask(n, acked)
}

// The cycle with the defaults, a maximum of 1000 and a minimum of 750. The first ask is
// for the maximum. The handler gets batches of 250, and after each the open demand is
// down to 750: so it is time to ask for 250 more.
func ExampleMaxDemand() {
	src := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		fmt.Println("produce", demand)
		return make([]int, demand), io.EOF
	})
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		fmt.Println("handle", len(events))
		return nil
	})
	stage.Connect[int](told{src}, sink, stage.MaxDemand(1000), stage.MinDemand(750))
	fmt.Println(stage.Run(context.Background(), src, sink))
	// Output:
	// ask for 1000, 0 processed
	// produce 1000
	// handle 250
	// ask for 250, 250 processed
	// handle 250
	// ask for 250, 500 processed
	// handle 250
	// ask for 250, 750 processed
	// handle 250
	// ask for 250, 1000 processed
	// <nil>
}
