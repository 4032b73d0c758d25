package stage

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Errors that callers match with errors.Is.
var (
	// ErrEnded: the stage has ended.
	ErrEnded = errors.New("the stage has ended")
	// ErrAlreadySubscribed: an inlet subscribes to an outlet, or a partition of it,
	// at most once at a time.
	ErrAlreadySubscribed = errors.New("already subscribed")
	// ErrSelfSubscription: a gate cannot subscribe to its own outlet.
	ErrSelfSubscription = errors.New("a gate cannot subscribe to itself")
	// ErrInvalidDemand: the terms do not satisfy 0 <= min < max.
	ErrInvalidDemand = errors.New("invalid demand")
	// ErrSubscribeTimeout: the subscription was not accepted in time.
	ErrSubscribeTimeout = errors.New("subscribe timed out")
	// ErrCreditExceeded: a producer sent more than was asked for.
	ErrCreditExceeded = errors.New("credit exceeded: more events than asked for")
	// ErrAskNotPositive: an ask is for at least 1.
	ErrAskNotPositive = errors.New("an ask must be for at least 1")
	// ErrUnsupportedDemandMode: the stage does its own asking.
	ErrUnsupportedDemandMode = errors.New("unsupported demand mode: the stage does its own asking")
	// ErrTooManyRestarts: something failed more often than is tolerated.
	ErrTooManyRestarts = errors.New("too many restarts")
	// ErrNoWorker: there is no worker with that ID.
	ErrNoWorker = errors.New("no such worker")
	// ErrTerminated: a worker was told to end before it had finished.
	ErrTerminated = errors.New("the worker was terminated")
	// ErrBusy: 10,000 messages, or changes of subscriptions that a hook is to be told of,
	// wait for the stage already.
	ErrBusy = errors.New("the stage is busy: too much waits for its handler")
	// ErrDrainTimeout: a stage that was stopped did not come to its end in time.
	ErrDrainTimeout = errors.New("the drain timeout is over")
	// ErrNotBegun: the subscription is declared, and the stage does not run yet.
	ErrNotBegun = errors.New("the subscription has not begun: ask in OnSubscribed, or when it is ready")
	// ErrAlreadyRun: a stage runs once, and its subscriptions are declared before.
	ErrAlreadyRun = errors.New("the stage runs, or has run, already: subscribe to it with Subscribe, or make a new one")
	// ErrNotRun: a stage was connected to, and not run.
	ErrNotRun = errors.New("nobody runs that stage: give it to Run too, or Connect with a longer Timeout if it comes later")
	// ErrNotMade: a stage is a literal. It has to come from its constructor.
	ErrNotMade = errors.New("the stage was not made by its constructor: use NewSource, NewGate, NewSink, NewWorkers or NewPool")
	// ErrLent: events are lent to a stage that keeps or passes on what it gets.
	ErrLent = errors.New("its events are lent until they are processed, and this stage may keep them: subscribe with a sink without dead letters, or by a port whose events are kept, like wire.Bytes")
	// ErrExited: a handler ended its goroutine with runtime.Goexit.
	ErrExited = errors.New("a handler ended its goroutine")
)

// Stop is returned by the handler of a gate or a sink to end the stage well. The
// batch counts as processed; what was received behind it goes back.
//
//lint:ignore ST1012 it is an instruction and not a failure
var Stop = errors.New("stop")

// Error is how a stage failed.
type Error struct {
	Stage string
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("stage %q: %v", e.Stage, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// SubscriptionError is how a subscription ended that did not end well.
type SubscriptionError struct {
	Outlet string
	Reason Reason
	Err    error
}

func (e *SubscriptionError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("subscription to %q %s", e.Outlet, e.Reason)
	}
	return fmt.Sprintf("subscription to %q %s: %v", e.Outlet, e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *SubscriptionError) Unwrap() error { return e.Err }

// EndedError refuses a subscription to a stage that has ended, and says how it
// ended. It is ErrEnded.
type EndedError struct{ Ending Ending }

func (e *EndedError) Error() string { return fmt.Sprintf("%v: %s", ErrEnded, e.Ending.Reason) }

// Is reports whether target is ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// DemandError is an ErrInvalidDemand that says which values were given.
type DemandError struct{ Max, Min int64 }

func (e *DemandError) Error() string {
	return fmt.Sprintf("invalid demand: max %d, min %d: want 0 <= min < max", e.Max, e.Min)
}

// Is reports whether target is ErrInvalidDemand.
func (e *DemandError) Is(target error) bool { return target == ErrInvalidDemand }

// PanicError is a panic in the code of a user, which ended its stage.
type PanicError struct {
	Value any
	Stack []byte
}

func newPanicError(v any) *PanicError { return &PanicError{Value: v, Stack: debug.Stack()} }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value, where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
