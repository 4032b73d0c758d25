package dispatch

import (
	"errors"
	"fmt"
)

// ID names one subscriber of a stage. A stage counts them from 1 and never uses an
// ID twice: 0 is nobody.
type ID uint64

// NoPartition in Terms stands for a subscription that names no partition.
const NoPartition = -1

// Terms are what a subscriber asks of a dispatcher when it joins.
type Terms struct {
	// Partition is the partition it wants, or NoPartition.
	Partition int
	// Selector says that it takes a part of the events only.
	Selector bool
}

// Delivery says that the next N events of a lane go to each of To. To is valid
// until the next call.
type Delivery struct {
	Lane, N int
	To      []ID
}

// Dispatcher decides which subscriber gets which event.
//
// The stage tells it of subscribers and of their asks, and after every change
// calls Next until it returns false. Package dispatchtest tests any dispatcher.
type Dispatcher[T any] interface {
	// Kind names the dispatcher for operators: demand, broadcast, partition or a
	// name of the user's.
	Kind() string
	// Lanes is the number of lanes that events wait in, at least 1. It never changes.
	Lanes() int
	// Lane names the lane of an event, from 0 to Lanes()-1, always the same one.
	Lane(event T) int
	// Join takes in a subscriber without credit. The errors are ErrNoPartition,
	// ErrPartitionRange, ErrPartitionTaken and ErrUnsupported, and they leave the
	// dispatcher as it was.
	Join(id ID, terms Terms) error
	// Leave forgets a subscriber and its credit. An unknown one changes nothing.
	Leave(id ID)
	// Ask adds n, at least 1, to the credit of a subscriber, which saturates. An unknown
	// one changes nothing.
	Ask(id ID, n int64)
	// Revoke takes back the credit of a subscriber, which stays, and returns it.
	Revoke(id ID) int64
	// Demand is how many events the subscribers could be given if each event that
	// they lack were there. What waits in lanes is not taken off.
	Demand() int64
	// Next returns the next delivery out of what waits, and books it; waiting
	// returns the number of events in a lane.
	Next(waiting func(lane int) int) (Delivery, bool)
}

// Errors of Join.
var (
	ErrNoPartition    = errors.New("the outlet is partitioned: name a partition")
	ErrPartitionRange = errors.New("no such partition")
	ErrPartitionTaken = errors.New("the partition has a subscriber")
	ErrUnsupported    = errors.New("the dispatcher does not know these terms")
)

// refuse returns an error for terms that a dispatcher does not know.
func refuse(kind string, terms Terms, selectors bool) error {
	if terms.Partition != NoPartition {
		return fmt.Errorf("%w: %s has no partitions", ErrUnsupported, kind)
	}
	if terms.Selector && !selectors {
		return fmt.Errorf("%w: %s has no selectors: use Broadcast, or filter in a gate", ErrUnsupported, kind)
	}
	return nil
}

// oneLane is embedded by dispatchers whose events wait in one lane.
type oneLane[T any] struct{}

func (oneLane[T]) Lanes() int { return 1 }
func (oneLane[T]) Lane(T) int { return 0 }
