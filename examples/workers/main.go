// Workers runs each event in a worker of its own, and starts one again that fails,
// with the same event and in the same slot.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	jobs := stage.FromSeq(func(yield func(string) bool) {
		for _, job := range []string{"resize", "encode", "upload"} {
			if !yield(job) {
				return
			}
		}
	})

	var mu sync.Mutex
	attempts := map[string]int{}
	workers := stage.NewWorkers(func(_ context.Context, job string) error {
		mu.Lock()
		defer mu.Unlock()
		attempts[job]++
		if job == "upload" && attempts[job] < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	workers.Restart = stage.OnFailure
	workers.Tolerance = stage.Tolerance{Restarts: 5}
	// Two slots: as many workers at once.
	stage.Connect(jobs, workers, stage.MaxDemand(2), stage.MinDemand(1))

	if err := stage.Run(context.Background(), jobs, workers); err != nil {
		log.Fatal(err)
	}
	for _, job := range []string{"resize", "encode", "upload"} {
		fmt.Printf("%s: %d attempts\n", job, attempts[job])
	}
}
