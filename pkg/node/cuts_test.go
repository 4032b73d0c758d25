package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/group"
	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// breaks is a network in memory that breaks a stream at one moment: at the k-th frame of
// a kind, before or after it has passed.
type breaks struct {
	to *Node

	mu    sync.Mutex
	kind  string
	k     int
	after bool
	// again lets the next stream break as well, when its Open has passed.
	again bool
	// late lets the producer not notice: it holds the old stream, and gets the frame that
	// was on its way once the next one is opened.
	late bool

	seen  map[string]int // how many of each kind
	fired bool
	ended []*wired
	held  func()
}

func (b *breaks) subscribe(ctx context.Context, _ *peers, _ string) (sluicev1.SubscriptionService_SubscribeClient, error) {
	p := newPair()
	context.AfterFunc(ctx, p.cuts[0])
	p.moment = func(kind string, pass func() error) error { return b.moment(p, kind, pass) }
	b.mu.Lock()
	b.ended = append(b.ended, p)
	b.mu.Unlock()
	context.AfterFunc(p.ends[0], func() {
		// What a consumer gives up, gRPC tells its producer.
		b.mu.Lock()
		late := b.late
		b.mu.Unlock()
		if !late {
			p.cuts[1]()
		}
	})
	go p.serve(b.to)
	return consumerSide{wired: p}, nil
}

func (b *breaks) moment(p *wired, kind string, pass func() error) error {
	if p.ends[0].Err() != nil {
		return nil // nothing passes any more, and nobody says so
	}
	b.mu.Lock()
	b.seen[kind]++
	hit := b.kind == kind && b.k == b.seen[kind]
	if hit && b.again {
		b.again, b.kind, b.k, b.after = false, "open", b.seen["open"]+1, true
	}
	b.fired = b.fired || hit
	after, held := b.after, b.held
	if kind == "opened" && held != nil && !hit {
		b.held = nil
		defer held()
	}
	late := b.late
	if hit && late && !after {
		b.held = func() { _ = pass() }
	}
	b.mu.Unlock()
	if !hit {
		return pass()
	}
	var err error
	if after {
		err = pass()
	}
	p.cuts[0]()
	if !late {
		p.cuts[1]()
	}
	return err
}

func (b *breaks) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.ended {
		p.cut()
	}
}

// behind is an outlet behind that network. Nobody has to be found.
type behind struct {
	b   *breaks
	n   *Node
	all sync.WaitGroup
}

func (o *behind) OutletName() string    { return ints.Name() }
func (o *behind) Done() <-chan struct{} { return nil }

func (o *behind) Attach(terms stage.Terms, to stage.Receiver[int]) (stage.Upstream[int], error) {
	terms.Node, terms.ResumeWindow = "b", 30*time.Second
	about := (&rawClient{stage: terms.Stage}).about()
	about.ResumeWindow = durationpb.New(terms.ResumeWindow)
	i := onlyMember(o.n, terms, to, about)
	o.all.Go(func() { i.last(o.n.ctx) })
	return i, nil
}

// onlyMember is a member of a group that nobody runs.
func onlyMember(n *Node, terms stage.Terms, to stage.Receiver[int], about *sluicev1.Open) *inflow[int] {
	i := newInflow(&following[int]{
		n: n, port: ints, terms: terms, about: about, wake: make(chan struct{}, 1), core: group.New(group.Terms{}),
	}, publisher{})
	i.to = to
	return i
}

const cutEvents = 40

// scene is what happens in a run that is cut somewhere.
type scene struct {
	// sink is the first consumer. Another one takes what it has left.
	sink  func(got *record) (s *stage.Sink[int], sub func(*stage.Subscription))
	fails bool
}

var scenes = map[string]scene{
	"completes": {sink: func(got *record) (*stage.Sink[int], func(*stage.Subscription)) {
		return got.sink("first"), func(*stage.Subscription) {}
	}},
	"drains": {sink: func(got *record) (*stage.Sink[int], func(*stage.Subscription)) {
		var sub *stage.Subscription
		s := stage.NewSink(func(_ context.Context, events []int) error {
			got.add(events)
			if got.len() > cutEvents/2 {
				sub.Cancel()
			}
			return nil
		})
		return s, func(x *stage.Subscription) { sub = x }
	}},
	"fails": {fails: true, sink: func(got *record) (*stage.Sink[int], func(*stage.Subscription)) {
		return stage.NewSink(func(_ context.Context, events []int) error {
			if got.len() > cutEvents/2 {
				return errSinkFails
			}
			got.add(events)
			return nil
		}), func(*stage.Subscription) {}
	}},
}

var errSinkFails = errors.New("it fails")

// play runs a scene, and checks that each event was processed once, that what is of the
// subscriptions has ended well, and that nothing is held any more.
func (sc scene) play(t *testing.T, b *breaks) {
	quiet := slog.New(slog.DiscardHandler)
	a, n := New(Config{Name: "a", Logger: quiet}), New(Config{Name: "b", Logger: quiet})
	b.to, b.seen = a, map[string]int{}
	n.tuning.subscribe = b.subscribe
	source := numbers(cutEvents)
	Publish(a, ints, source)
	outlet := &behind{b: b, n: n}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer func() {
		// Also when something has failed.
		stop()
		n.cut(errStopped)
		a.cut(errStopped)
		b.close()
		outlet.all.Wait()
		a.published["numbers"].close()
	}()
	run := func(s stage.Runner) <-chan error {
		c := make(chan error, 1)
		go func() { c <- stage.Run(ctx, s) }()
		return c
	}
	var first, second record
	one, subscribed := sc.sink(&first)
	one.Name = "first"
	subscribed(stage.Connect(outlet, one, stage.MaxDemand(10), stage.MinDemand(5)))
	ranSource, ranOne := run(source), run(one)
	err := <-ranOne
	if sc.fails {
		require.ErrorIs(t, err, errSinkFails)
	} else {
		require.NoError(t, err)
	}
	two := second.sink("second")
	stage.Connect(outlet, two, stage.MaxDemand(10), stage.MinDemand(5))
	ranTwo := run(two)
	require.NoError(t, <-ranTwo)
	require.NoError(t, <-ranSource)
	once(t, cutEvents, &first, &second)
	require.NoError(t, counted(first.all(), first.len()), "in order")
	outlet.all.Wait()
	time.Sleep(10 * time.Minute)
	require.Empty(t, a.published["numbers"].(*published[int]).sessions())
}

// A stream that breaks at any moment loses nothing and repeats nothing: every frame of
// three runs is cut once before and once after it has passed; with and without the next
// stream breaking too; and with the producer not noticing, so that it is taken over, and
// hears the old stream's frame late.
func TestCutAtEveryMoment(t *testing.T) {
	all, fired := 0, 0
	for name, sc := range scenes {
		plain := &breaks{}
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sc.play(t, plain) }) })
		require.NotZero(t, plain.seen["batch"], "%v", plain.seen)
		for kind, n := range plain.seen {
			for k := 1; k <= min(n, 6); k++ {
				for _, how := range []string{"", ", twice", ", late"} {
					for _, after := range []bool{false, true} {
						cut := &breaks{kind: kind, k: k, after: after, again: how == ", twice", late: how == ", late"}
						when := map[bool]string{false: "before", true: "after"}[after]
						t.Run(fmt.Sprintf("%s/%s %s %d%s", name, when, kind, k, how), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { sc.play(t, cut) })
							if all++; cut.fired {
								fired++
							}
						})
					}
				}
			}
		}
	}
	// What is said by an Ask in one run may be said by an Ack in another.
	require.Greater(t, fired, all*9/10, "of %d moments", all)
}
