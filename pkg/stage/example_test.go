package stage_test

import (
	"context"
	"fmt"
	"io"

	"github.com/sluicenet/sluice/pkg/stage"
)

// A source, a gate and a sink. The sink asks, and the numbers come.
func Example() {
	next := 1
	counter := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		var events []int
		for ; len(events) < demand && next <= 5; next++ {
			events = append(events, next)
		}
		if next > 5 {
			return events, io.EOF
		}
		return events, nil
	})
	doubler := stage.NewGate(stage.Map(func(n int) int { return 2 * n }))
	printer := stage.NewSink(func(_ context.Context, events []int) error {
		for _, n := range events {
			fmt.Println(n)
		}
		return nil
	})
	stage.Connect(counter, doubler)
	stage.Connect(doubler, printer, stage.MinDemand(5), stage.MaxDemand(10))
	if err := stage.Run(context.Background(), counter, doubler, printer); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2
	// 4
	// 6
	// 8
	// 10
}

// A source ends by returning io.EOF, together with its last events.
func ExampleSource() {
	lines := []string{"to", "be", "or", "not", "to", "be"}
	src := stage.NewSource(func(_ context.Context, demand int) ([]string, error) {
		n := min(demand, len(lines))
		events := lines[:n]
		lines = lines[n:]
		if len(lines) == 0 {
			return events, io.EOF
		}
		return events, nil
	})
	sink := stage.NewSink(func(_ context.Context, events []string) error {
		fmt.Println(events)
		return nil
	})
	stage.Connect(src, sink, stage.MaxDemand(4), stage.MinDemand(0))
	fmt.Println(stage.Run(context.Background(), src, sink))
	// Output:
	// [to be or not]
	// [to be]
	// <nil>
}

// A gate may turn a batch into fewer events, or into more.
func ExampleGate() {
	src := stage.FromChan(words("a stage is a core and a loop"))
	long := stage.NewGate(stage.Filter(func(word string) bool { return len(word) > 1 }))
	twice := stage.NewGate(func(_ context.Context, words []string) (out []string, err error) {
		for _, w := range words {
			out = append(out, w, w)
		}
		return out, nil
	})
	sink := stage.NewSink(func(_ context.Context, words []string) error {
		for _, w := range words {
			fmt.Print(w, " ")
		}
		return nil
	})
	stage.Connect(src, long)
	stage.Connect(long, twice)
	stage.Connect(twice, sink)
	fmt.Println(stage.Run(context.Background(), src, long, twice, sink))
	// Output: stage stage is is core core and and loop loop <nil>
}

// A sink that has seen enough returns Stop: everything else ends with it.
func ExampleSink() {
	n := 0
	src := stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		return make([]int, demand), nil
	})
	src.OnDiscard = func(string, int) {} // what was made and nobody is left to take
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		if n += len(events); n >= 1000 {
			return stage.Stop
		}
		return nil
	})
	stage.Connect(src, sink)
	fmt.Println(stage.Run(context.Background(), src, sink), n)
	// Output: <nil> 1000
}

// A loop is a sink too: events count as processed when its body has had them.
func ExampleAll() {
	ctx, cancel := context.WithCancel(context.Background())
	src := stage.FromChan(words("one two three four"))
	src.OnDiscard = func(reason string, n int) { fmt.Println(n, "given up:", reason) }
	ended := make(chan error)
	go func() { ended <- stage.Run(ctx, src) }()
	for word, err := range stage.All(ctx, src) {
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(word)
		if word == "two" {
			break
		}
	}
	cancel()
	<-ended
	// Output:
	// one
	// two
	// 2 given up: stage ended
}

// Fold runs all events through a function.
func ExampleFold() {
	ctx := context.Background()
	src := stage.FromChan(words("to be or not to be"))
	ended := make(chan error)
	go func() { ended <- stage.Run(ctx, src) }()
	counts, err := stage.Fold(ctx, src, map[string]int{}, func(counts map[string]int, word string) map[string]int {
		counts[word]++
		return counts
	})
	fmt.Println(counts, err)
	fmt.Println(<-ended)
	// Output:
	// map[be:2 not:1 or:1 to:2] <nil>
	// <nil>
}

// A subscription may be made, and cancelled, while the stages run.
func ExampleSubscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	src := stage.FromChan(words("one two three"))
	got := make(chan string)
	sink := stage.NewSink(func(_ context.Context, events []string) error {
		for _, e := range events {
			got <- e
		}
		return nil
	})
	ended := make(chan error)
	go func() { ended <- stage.Run(ctx, src, sink) }()
	sub, err := stage.Subscribe(ctx, src, sink, stage.Manual(), stage.Temporary)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sub.Ask(0))
	fmt.Println(sub.Ask(2), <-got, <-got)
	sub.Cancel()
	<-sub.Done()
	fmt.Println(sub.Ending().Reason)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// an ask must be for at least 1
	// <nil> one two
	// cancelled
	// context canceled
}
