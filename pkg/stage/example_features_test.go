package stage_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// printer is a sink that prints each batch.
func printer[T any]() *stage.Sink[T] {
	return stage.NewSink(func(_ context.Context, events []T) error {
		fmt.Println(events)
		return nil
	})
}

// A source of what others push. Its buffer takes what nobody has asked for, and says what
// it gives up.
func ExampleSource_Push() {
	readings := stage.NewSource[int](nil)
	readings.Buffer = stage.KeepLast(3)
	readings.OnDiscard = func(reason string, n int) { fmt.Println(n, "given up:", reason) }
	fmt.Println(readings.Push(20, 21, 22, 23)) // nobody is there yet
	readings.Finish()
	fmt.Println(readings.Push(24))
	sink := printer[int]()
	stage.Connect(readings, sink)
	fmt.Println(stage.Run(context.Background(), readings, sink))
	// Output:
	// 1 given up: buffer overflow
	// <nil>
	// the stage has ended
	// [21 22 23]
	// <nil>
}

// Who can wait pushes as fast as the flow goes, and loses nothing.
func ExampleSource_PushWait() {
	ctx := context.Background()
	src := stage.NewSource[int](nil)
	src.Buffer = stage.KeepLast(2)
	sum := 0
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		for _, e := range events {
			sum += e
		}
		return nil
	})
	stage.Connect(src, sink, stage.MaxDemand(4))
	ended := make(chan error)
	go func() { ended <- stage.Run(ctx, src, sink) }()
	for i := range 1000 {
		if _, err := src.PushWait(ctx, i); err != nil {
			fmt.Println(err)
		}
	}
	src.Finish()
	fmt.Println(<-ended, sum)
	// Output: <nil> 499500
}

// Messages change a stage while it runs, in order with its events. Here one turns the
// volume up, and another one makes the gate say something itself.
func ExampleHandle() {
	src := stage.NewSource[string](nil)
	loud := false
	g := stage.NewGate(stage.Map(func(word string) string {
		if loud {
			return strings.ToUpper(word)
		}
		return word
	}))
	setLoud := stage.Handle(g, func(_ context.Context, on bool) ([]string, error) {
		loud = on
		return nil, nil
	})
	type aside string
	say := stage.Handle(g, func(_ context.Context, a aside) ([]string, error) {
		return []string{"(" + string(a) + ")"}, nil
	})
	spoken := make(chan string)
	sink := stage.NewSink(func(_ context.Context, words []string) error {
		for _, w := range words {
			spoken <- w
		}
		return nil
	})
	stage.Connect(src, g)
	stage.Connect(g, sink)
	ended := make(chan error)
	go func() { ended <- stage.Run(context.Background(), src, g, sink) }()
	_ = src.Push("hear")
	fmt.Println(<-spoken)
	_ = setLoud(true)
	_ = src.Push("hear")
	fmt.Println(<-spoken)
	_ = say("exit")
	fmt.Println(<-spoken)
	src.Finish()
	fmt.Println(<-ended)
	// Output:
	// hear
	// HEAR
	// (exit)
	// <nil>
}

// A sink is asked what it has counted, and told to stop.
func ExampleHandleSink() {
	n := 0
	counted := make(chan struct{})
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		n += len(events)
		close(counted)
		return nil
	})
	ask := stage.HandleSink(sink, func(_ context.Context, answer chan<- int) error {
		answer <- n
		return nil
	})
	type stop struct{}
	tell := stage.HandleSink(sink, func(context.Context, stop) error { return stage.Stop })
	src := stage.NewSource[int](nil)
	stage.Connect(src, sink)
	ended := make(chan error)
	go func() { ended <- stage.Run(context.Background(), src, sink) }()
	_ = src.Push(7, 8, 9)
	<-counted
	answer := make(chan int)
	fmt.Println(ask(answer), <-answer)
	fmt.Println(tell(stop{}), <-ended)
	fmt.Println(tell(stop{}))
	// Output:
	// <nil> 3
	// <nil> <nil>
	// the stage has ended
}

// A part of what a source broadcasts.
func ExampleWhere() {
	src := stage.FromChan(words("one two three four five six"))
	src.Dispatcher = dispatch.Broadcast[string]()
	short := func(word string) bool { return len(word) == 3 }
	sink := printer[string]()
	stage.Connect(stage.Where(src, short), sink, stage.MaxDemand(100), stage.MinDemand(0))
	fmt.Println(stage.Run(context.Background(), src, sink))
	// Output:
	// [one two six]
	// <nil>
}

// Nothing moves before everybody is there: so nobody misses the first events of a
// broadcast.
func ExampleSource_Forward() {
	src := stage.FromChan(words("ready steady go"))
	src.Dispatcher = dispatch.Broadcast[string]()
	src.Accumulate = true
	ended := make(chan error)
	go func() { ended <- stage.Run(context.Background(), src) }()
	heard := make(chan string)
	for range 2 {
		var all []string
		late := stage.NewSink(func(_ context.Context, words []string) error {
			all = append(all, words...)
			return nil
		})
		stage.Connect(src, late)
		go func() {
			_ = stage.Run(context.Background(), late)
			heard <- strings.Join(all, " ")
		}()
	}
	for len(src.Inspect().Subscribers) < 2 {
		time.Sleep(time.Millisecond)
	}
	src.Forward()
	fmt.Println(<-heard)
	fmt.Println(<-heard)
	fmt.Println(<-ended)
	// Output:
	// ready steady go
	// ready steady go
	// <nil>
}

// A rate limiter: two events at each tick and no more, however many there are. It asks
// for as many as it has handled since the last tick, so that no more than two are ever
// on their way.
func ExampleManual() {
	src := stage.FromChan(words("one two three four five"))
	var sub *stage.Subscription
	handled := 2
	sink := stage.NewSink(func(_ context.Context, words []string) error {
		for _, w := range words {
			fmt.Print(w, " ")
		}
		handled += len(words)
		return nil
	})
	tick := stage.HandleSink(sink, func(context.Context, time.Time) error {
		if handled > 0 && sub.Ask(handled) == nil {
			fmt.Println("tick")
			handled = 0
		}
		return nil
	})
	sub = stage.Connect(src, sink, stage.Manual())
	ended := make(chan error)
	go func() { ended <- stage.Run(context.Background(), src, sink) }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			_ = tick(now)
		case err := <-ended:
			fmt.Println(err)
			return
		}
	}
	// Output:
	// tick
	// one two tick
	// three four tick
	// five <nil>
}

// A handler looks at where its batch comes from, and asks for the next one itself.
func ExampleDelivery() {
	src := stage.FromChan(words("one two three four five"))
	sink := stage.NewSink(func(ctx context.Context, words []string) error {
		d, _ := stage.Delivery(ctx)
		fmt.Println(d.Subscription.Info().Outlet, "from", d.First, words)
		return d.Subscription.Ask(2)
	})
	src.Name = "words"
	sink.OnSubscribed = func(sub *stage.Subscription) error { return sub.Ask(2) }
	stage.Connect(src, sink, stage.Manual())
	fmt.Println(stage.Run(context.Background(), src, sink))
	// Output:
	// words from 1 [one two]
	// words from 3 [three four]
	// words from 5 [five]
	// <nil>
}

// A source that works only while somebody listens.
func ExampleSubscriberChange() {
	src := stage.NewSource[string](nil)
	told := make(chan string)
	src.OnSubscribers = func(c stage.SubscriberChange) {
		switch {
		case c.Left == nil && c.Count == 1:
			told <- "open the socket for " + c.Who.Stage
		case c.Left != nil && c.Count == 0:
			told <- fmt.Sprint("close it: ", c.Left.Reason)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	sink := printer[string]()
	sink.Name = "listener"
	go func() { ended <- stage.Run(ctx, src, sink) }()
	sub, err := stage.Subscribe(ctx, src, sink, stage.Temporary)
	fmt.Println(<-told, err)
	sub.Cancel()
	fmt.Println(<-told)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// open the socket for listener <nil>
	// close it: cancelled
	// context canceled
}

// A sink of two sources ends when both have.
func ExampleJoint() {
	one, two := stage.FromChan(words("a b")), stage.FromChan(words("c d e"))
	n := 0
	sink := stage.NewSink(func(_ context.Context, words []string) error {
		n += len(words)
		return nil
	})
	stage.Connect(one, sink, stage.Joint)
	stage.Connect(two, sink, stage.Joint)
	fmt.Println(stage.Run(context.Background(), one, two, sink), n)
	// Output: <nil> 5
}

// A snapshot says who holds up whom: here nobody has asked the gate for anything, so it
// holds its own ask.
func ExampleInfo() {
	src, g := stage.FromChan(words("one two")), stage.NewGate(stage.Map(strings.ToUpper))
	stage.Connect(src, g, stage.MaxDemand(2), stage.MinDemand(1))
	src.OnDiscard, g.OnDiscard = func(string, int) {}, func(string, int) {}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- stage.Run(ctx, src, g) }()
	for g.Inspect().In < 2 {
		time.Sleep(time.Millisecond)
	}
	i := g.Inspect()
	fmt.Println(i.In, "in", i.Out, "out", i.Waiting, "waiting")
	cancel()
	<-ended
	// Output: 2 in 2 out [2] waiting
}
