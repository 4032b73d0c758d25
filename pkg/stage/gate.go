package stage

import (
	"context"
	"time"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// Gate receives events, turns each batch into zero or more others, and passes them
// on.
//
// It asks for more input only when somebody subscribes to it and wants more than
// waits in its buffer, or the buffer is empty: so a slow consumer is felt by the
// stages before the gate. The fields are settings: set them before the stage is
// connected, published or run. A Gate runs once.
type Gate[In, Out any] struct {
	// Name names the stage and its outlet; default gate-n.
	Name string
	// Dispatcher decides who gets which event; default dispatch.Demand.
	Dispatcher dispatch.Dispatcher[Out]
	// Buffer keeps what nobody has asked for yet; default Unlimited: what a gate
	// holds is bounded by what it asked for, times what it makes of one event.
	Buffer Buffer
	// OnDiscard is told of each number of events that were given up, and why. By
	// default a warning is logged.
	OnDiscard func(reason string, count int)
	// OnSubscribers is told of each subscriber that arrives or leaves, once, on the
	// stage's own goroutine, in order with the events that arrive. A panic fails the
	// stage. It is told of nothing any more when the stage ends.
	OnSubscribers func(SubscriberChange)
	// OnError says what happens when transform fails; by default the stage fails. What it
	// gives up is counted and reported like everything else that is discarded.
	OnError ErrorPolicy
	// DeadLetters takes what transform could not handle, with the policy ToDeadLetters.
	DeadLetters Letterbox[In]
	// MaxAttempts is how often an event that the gate has sent may come back, as that of
	// [Source] says, and Exhausted takes what has come back too often.
	MaxAttempts int
	Exhausted   Letterbox[Out]
	// DrainTimeout bounds how long the stage takes to end when it is stopped;
	// default 30 s.
	DrainTimeout time.Duration

	transform func(ctx context.Context, events []In) ([]Out, error)
	in        *inlet[In]
	out       *outlet[Out]
	life      life
}

var (
	_ Outlet[string] = (*Gate[int, string])(nil)
	_ Inlet[int]     = (*Gate[int, string])(nil)
	_ Runner         = (*Gate[int, string])(nil)
	_ Inspector      = (*Gate[int, string])(nil)
)

// NewGate returns a gate that calls transform with each batch that arrives.
//
// The batch is transform's own for the call, and the slice it returns, which may be the
// batch, is free again when it is called next; the events in it are sluice's. [Stop] ends the stage well. An error or a panic fails it, or does what OnError says;
// with [FailedAt] transform says how far it came. Calls never overlap.
// ctx ends when the stage has to stop at once.
func NewGate[In, Out any](transform func(ctx context.Context, events []In) ([]Out, error)) *Gate[In, Out] {
	g := &Gate[In, Out]{Name: defaultName("gate"), transform: transform}
	g.in = newInlet[In](&g.Name, g)
	g.out = newOutlet(&g.Name, func() (dispatch.Dispatcher[Out], Buffer) {
		g.out.discard = g.OnDiscard
		g.out.announce(g.OnSubscribers, g.in.must)
		g.out.maxAttempts, g.out.bury = attempts(g.MaxAttempts), burial(g.Exhausted, &g.Name)
		return g.Dispatcher, g.Buffer.or(Unlimited())
	})
	g.out.appetite = g.in.release
	return g
}

// Map returns a transform for [NewGate] that turns each event into one other.
func Map[In, Out any](f func(In) Out) func(context.Context, []In) ([]Out, error) {
	return func(_ context.Context, events []In) ([]Out, error) {
		out := make([]Out, len(events))
		for i, e := range events {
			out[i] = f(e)
		}
		return out, nil
	}
}

// Filter returns a transform for [NewGate] that passes on the events that keep
// keeps.
func Filter[T any](keep func(T) bool) func(context.Context, []T) ([]T, error) {
	return func(_ context.Context, events []T) ([]T, error) {
		kept := events[:0]
		for _, e := range events {
			if keep(e) {
				kept = append(kept, e)
			}
		}
		return kept, nil
	}
}

// OutletName implements [Outlet].
func (g *Gate[In, Out]) OutletName() string { return g.Name }

// Attach implements [Outlet].
func (g *Gate[In, Out]) Attach(terms Terms, r Receiver[Out]) (Upstream[Out], error) {
	return g.out.attach(terms, nil, r)
}

// Done implements [Outlet].
func (g *Gate[In, Out]) Done() <-chan struct{} { return g.out.ended() }

// Tap implements [Tapper].
func (g *Gate[In, Out]) Tap(watch func(events []Out)) (stop func()) { return g.out.tap(watch) }

// Run runs the stage alone. See the function [Run].
func (g *Gate[In, Out]) Run(ctx context.Context) error { return Run(ctx, g) }

// Ended is closed when the stage has ended.
func (g *Gate[In, Out]) Ended() <-chan struct{} { return g.life.ended() }

// Inspect returns a snapshot. It does not wait for the handler.
func (g *Gate[In, Out]) Inspect() Info {
	i := Info{Name: g.Name, Kind: "gate"}
	g.life.inspect(&i)
	g.in.inspect(&i)
	g.out.inspect(&i)
	return i
}

func (g *Gate[In, Out]) inlet() *inlet[In] { return g.in }

func (g *Gate[In, Out]) ask() { g.in.ask() }

func (g *Gate[In, Out]) begun() bool { return g.life.begun() }

func (g *Gate[In, Out]) isSink() bool { return false }

func (g *Gate[In, Out]) result() error { return g.life.result() }

func (g *Gate[In, Out]) open() error {
	if g.in == nil {
		return ErrNotMade
	}
	if err := g.life.begin(); err != nil {
		return err
	}
	g.in.how = &handling[In]{
		call: g.handle, hold: true, policy: g.OnError, letters: g.DeadLetters, discard: g.OnDiscard,
		after: func() {
			if g.out.hungry() {
				g.in.release()
			}
		},
	}
	err := g.in.how.check()
	if err == nil {
		err = g.in.open()
	}
	if err != nil {
		g.in.close(verdict{Failed, err}, 0)
		g.out.end(Ending{Reason: Failed, Err: err})
		g.life.end(g.Name, err)
		return err
	}
	feed(g.DeadLetters)
	feed(g.Exhausted)
	return nil
}

func (g *Gate[In, Out]) work(ctx context.Context, ours func(any) bool) {
	hard, release := extend(ctx, orDefault(g.DrainTimeout))
	defer release()
	defer when(ctx, g.out.hurry)()
	g.out.onCrash(g.in.stop)
	v := verdict{Failed, ErrExited}
	defer func() {
		g.life.set("ending")
		if v.err != nil {
			g.in.close(v, inHand)
		}
		g.out.end(v.ending())
		g.out.drain(orDefault(g.DrainTimeout), hard.Done())
		g.out.reported()
		starve(ctx, g.DeadLetters)
		starve(ctx, g.Exhausted)
		g.life.end(g.Name, g.out.failure())
	}()
	v = g.in.run(ctx, hard, ours)
}

func (g *Gate[In, Out]) handle(ctx context.Context, events []In) error {
	var out []Out
	err := guard(func() (err error) {
		out, err = g.transform(ctx, events)
		return err
	})
	// The input of a batch that failed is tried again or goes back, so its output may not go
	// on, except that of what is processed.
	first, _ := stopsAt(err, len(events))
	if err == nil || err == Stop || first > 0 { //nolint:errorlint // a wrapped Stop is an error like another
		if broken := g.out.emit(out); broken != nil {
			return brokenOutlet{broken}
		}
	}
	return err
}
