// Push is a source whose events come from outside: from a socket, a timer, another
// goroutine. What nobody has asked for yet is buffered, and what the buffer has no
// room for is given up, out loud.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	readings := stage.NewSource[int](nil) // no handler: its events are pushed
	readings.Buffer = stage.KeepLast(5)
	readings.OnDiscard = func(reason string, count int) {
		fmt.Printf("discarded: %d (%s)\n", count, reason)
	}

	// Nobody has subscribed yet, so that the buffer takes the newest five of them.
	if err := readings.Push(1, 2, 3, 4, 5, 6, 7, 8); err != nil {
		log.Fatal(err)
	}

	printer := stage.NewSink(func(_ context.Context, events []int) error {
		fmt.Println("printed:", events)
		return nil
	})
	stage.Connect(readings, printer)

	ctx := context.Background()
	go func() {
		// Who can wait does not lose anything.
		if _, err := readings.PushWait(ctx, 9, 10); err != nil {
			log.Print(err)
		}
		readings.Finish()
	}()
	if err := stage.Run(ctx, readings, printer); err != nil {
		log.Fatal(err)
	}
}
