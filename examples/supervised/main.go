// Supervised is a pipeline that is started again when a part of it fails. The parts
// find each other by name, so that a new sink finds the new source.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	var names stage.Names
	starts := 0

	source := func() stage.Runner {
		starts++
		run, next := starts, 0
		s := stage.NewSource(func(context.Context, int) ([]string, error) {
			next++
			switch {
			case run == 1 && next == 2:
				return nil, errors.New("the cable was pulled")
			case next == 3:
				return nil, io.EOF
			}
			return []string{fmt.Sprintf("run %d, event %d", run, next)}, nil
		})
		s.Name = "readings"
		if err := stage.Register(&names, s); err != nil {
			log.Fatal(err)
		}
		return s
	}
	sink := func() stage.Runner {
		s := stage.NewSink(func(_ context.Context, events []string) error {
			for _, e := range events {
				fmt.Println(e)
			}
			return nil
		})
		stage.Connect(stage.Named[string](&names, "readings"), s)
		return s
	}

	supervisor := stage.Supervise(stage.RestForOne, source, sink)
	supervisor.OnRestart = func(child int, _ error) { fmt.Printf("child %d failed: restarting it and those after it\n", child) }
	if err := supervisor.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("started:", starts, "times")
}
