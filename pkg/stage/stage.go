package stage

import (
	"context"
	"time"

	"github.com/sluicenet/sluice/internal/credit"
)

// An Outlet is the face of a stage that events come out of. [Source] and [Gate]
// are outlets of this process; package node makes outlets of other processes, and
// a stage cannot tell the difference.
type Outlet[T any] interface {
	// OutletName is the name of the stage, or of the outlet on the network.
	OutletName() string
	// Attach makes a subscription without credit, for r. It returns at once: on a
	// network the answer arrives at r, as Opened or as Ended. It returns ErrEnded,
	// an error of package dispatch, or what the network layer adds.
	Attach(terms Terms, r Receiver[T]) (Upstream[T], error)
	// Done is closed when the stage has ended and every subscriber was told.
	Done() <-chan struct{}
}

// An Inlet is the face of a stage that events go into: a [Gate] or a [Sink].
type Inlet[T any] interface {
	inlet() *inlet[T]
}

// A Receiver is a consumer as its producer sees it. Its methods are called one at
// a time and in order. They must return at once and may not call back into the
// producer: room for what they are handed was reserved by asking for it.
type Receiver[T any] interface {
	// Opened says that the producer has accepted the subscription.
	Opened()
	// Deliver hands over events that were asked for. The events are the producer's:
	// the receiver copies what it keeps.
	Deliver(b Batch[T])
	// Ended is the last call: the subscription has come to its end.
	Ended(e Ending)
}

// A Sender is a [Receiver] that sends what it is handed somewhere else, which takes longer
// than Deliver may. After one or several calls of Deliver the producer calls one of the
// two methods.
type Sender interface {
	// Wake is for a goroutine of the receiver's own to send. It returns at once.
	Wake()
	// Send is called by the goroutine that has delivered, without a lock of the producer's:
	// it may send on that goroutine, which saves a hand-over, as far as that does not wait
	// for the other side.
	Send()
}

// An Upstream is a producer as its consumer sees it. Its methods may be called
// from any goroutine, also from several at once, and do not wait for a handler.
// After the subscription has ended they do nothing.
type Upstream[T any] interface {
	// Ask acknowledges everything up to position acked as processed, and the ranges
	// done above it, and then adds n, at least 1, to what the producer may send.
	Ask(n, acked int64, done ...Range) error
	// Ack acknowledges everything up to position acked as processed, and the ranges
	// done above it.
	Ack(acked int64, done ...Range) error
	// Cancel ends the subscription. The answer is a call of Ended. One with Drain may
	// be followed by one without, which takes back what is not processed by then.
	Cancel(c Cancel[T])
	// Revoke takes back what was asked for and not sent, and returns how much that
	// was. The subscription stays.
	Revoke() int64
	// Discard gives up the last n events that were delivered, because they cannot be
	// sent, by the name of reason. They are asked for anew.
	Discard(n int, reason string)
}

// A Waiter is an [Upstream] that may wait for its producer. Waiting says what it
// waits for, and nil when it does not.
type Waiter interface{ Waiting() error }

// A Tapper is an [Outlet] that can be watched.
type Tapper[T any] interface {
	// Tap calls watch with everything that the stage emits, until stop is called.
	// watch must return at once and may keep nothing.
	Tap(watch func(events []T)) (stop func())
}

// A Lender is an [Outlet] that may lend its events: then they are valid until they are
// processed, and their memory is used again. Only a [Sink] without DeadLetters can
// subscribe to such events, since nobody else is done with an event then: others are
// refused with ErrLent.
type Lender interface{ Lends() bool }

// Batch is one delivery.
type Batch[T any] struct {
	Events []T
	// Redelivered says that the events were sent before, to a consumer that is gone.
	Redelivered bool
	// Attempts is how often these events have come back from a handler that had them.
	Attempts int
	// Bytes is how many bytes the events have together, as they came; 0 where that is not
	// known, as in one process.
	Bytes int64
}

// Cancel ends a subscription from the consumer's side.
type Cancel[T any] struct {
	// Drain lets everything that was sent be processed first. Otherwise all that is
	// not acknowledged goes back to the producer.
	Drain bool
	// Acked is the position up to which everything is processed, and Done are the
	// ranges above it that are processed too.
	Acked int64
	Done  []Range
	// Tried are the positions, of those that go back, that a handler had and did not
	// finish: they count an attempt, and no others.
	Tried []Range
	// Rest is what goes back when both ends are in one process, in order: a
	// producer that keeps what it sent does not look at it.
	Rest []Returned[T]
	// Reason says why, in words.
	Reason string
}

// Range is the positions First to Last of a subscription, both included.
type Range = credit.Range

// Returned is an event that goes back to its producer.
type Returned[T any] struct {
	Event T
	// Attempts is how often the event has come back from a handler that had it.
	Attempts int
}

// Terms are what a subscription was agreed on. Options set them.
type Terms struct {
	// Node and Stage name the consumer. Node is empty in one process.
	Node, Stage          string
	MaxDemand, MinDemand int64
	Manual               bool
	AtMostOnce           bool
	// Partition is the partition that is taken, or dispatch.NoPartition.
	Partition int
	// ResumeWindow is how long a broken connection may take to come back.
	ResumeWindow time.Duration
}

// SubscriberChange is news about the subscribers of an outlet.
type SubscriberChange struct {
	// Count is how many there are now.
	Count int
	// Who has arrived, or left.
	Who Terms
	// Left is how the subscription has ended, or nil for one that begins.
	Left *Ending
}

// A Runner does its work inside Run and has stopped everything when Run returns.
// Stages and nodes are runners.
type Runner interface {
	Run(ctx context.Context) error
}

// A Host is a runner that stages depend on, such as a node: the function [Run]
// starts hosts before the stages and stops them when the stages have ended.
type Host interface {
	Runner
	// Start returns when the host is up. It is told who else runs. ctx ends when the
	// stages are told to end.
	Start(ctx context.Context, others []Runner) error
	// Stop finishes what the host still carries and stops it. When ctx ends, it
	// cuts what is left.
	Stop(ctx context.Context) error
}

// Inspector is a stage that can be looked at while it runs.
type Inspector interface {
	// Inspect returns a snapshot. It does not wait for a handler.
	Inspect() Info
	// Ended is closed when the stage has ended and its last snapshot stands.
	Ended() <-chan struct{}
}
