// Deadletter is a pipeline with an event in it that cannot be handled. It is tried again,
// and then it goes to the dead letters, alone: the others are handled, and nothing stops.
package main

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
)

func main() {
	words := stage.NewSource[string](nil)
	words.Name = "words"
	if err := words.Push("1", "2", "three", "4", "5"); err != nil {
		log.Fatal(err)
	}
	words.Finish()

	letters := stage.NewDeadLetters[string]()
	parse := stage.NewGate(func(_ context.Context, batch []string) ([]int, error) {
		numbers := make([]int, 0, len(batch))
		for i, word := range batch {
			n, err := strconv.Atoi(word)
			if err != nil {
				return numbers, stage.FailedAt(i, err) // those before it are done
			}
			numbers = append(numbers, n)
		}
		return numbers, nil
	})
	parse.Name = "parse"
	parse.OnError = stage.ErrorPolicy{Retries: 2, Delay: 10 * time.Millisecond, Then: stage.ToDeadLetters}
	parse.DeadLetters = letters

	sum := 0
	adder := stage.NewSink(func(_ context.Context, batch []int) error {
		for _, n := range batch {
			sum += n
		}
		return nil
	})
	clerk := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[string]) error {
		for _, l := range batch {
			fmt.Printf("%q of %s: %s in %s after %d attempts: %s\n", l.Event, l.Outlet, l.Reason, l.Stage, l.Attempts, l.Err)
		}
		return nil
	})
	stage.Connect(words, parse)
	stage.Connect(parse, adder)
	stage.Connect(letters, clerk)
	if err := stage.Run(context.Background(), words, parse, adder, letters, clerk); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the others add up to", sum)
}
