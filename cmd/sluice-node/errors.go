package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/sluicenet/sluice/internal/builtin"
	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
)

// errReported says that it went wrong, and that stderr says so already.
var errReported = errors.New("reported")

// failure is an error as an operator needs it: what happened, why that is so, where
// there is more to say than what happened, and what to do next.
type failure struct{ what, why, try string }

func (f failure) write(w io.Writer) {
	// One write, so that nothing comes in between.
	var b strings.Builder
	fmt.Fprintf(&b, "sluice-node: %s\n", f.what)
	if f.why != "" {
		fmt.Fprintf(&b, "  why: %s\n", f.why)
	}
	if f.try != "" {
		fmt.Fprintf(&b, "  try: %s\n", f.try)
	}
	_, _ = io.WriteString(w, b.String())
}

// failureOf explains an error of a run.
func failureOf(err error) failure {
	f := failure{what: strings.TrimSpace(err.Error())}
	var sub *stage.SubscriptionError
	var known *builtin.Failure
	var panicked *stage.PanicError
	var lost *lossError
	switch {
	case errors.As(err, &lost):
		f.why = "all stages have ended, but not all events have arrived"
		f.try = "see in the log when that was; what is too large for a message between nodes can be filtered out before"
	case errors.As(err, &panicked):
		f.why = "this is a bug of sluice-node"
		f.try = "report it, together with the lines above"
	case errors.As(err, &known):
		f.try = known.Try
	case errors.As(err, &sub):
		f.why, f.try = whyEnded(sub)
	case errors.Is(err, stage.ErrDrainTimeout):
		f.why = "it was told to stop, and its events took longer than it may take; what it had not processed goes back to its producer"
		f.try = "ask for less at once with max_demand in from, or see what holds it up"
	case errors.Is(err, node.ErrNameTaken):
		f.why = "a node is known by its name, so a cluster has each name once"
		f.try = "give this node another node.name, or stop the other one"
	case errors.Is(err, syscall.EADDRINUSE):
		f.why = "another process listens there"
		f.try = "stop it, or choose another address for listen.grpc.address or cluster.bind; port 0 is one that is free"
	case errors.Is(err, syscall.ENOSPC):
		f.try = "make room, and run it again"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.try = "listen on an address of this machine: listen.grpc.address, cluster.bind"
	}
	return f
}

// lossError is events that did not get to anybody.
type lossError struct {
	stage, reason string
	n             int64
}

func (e *lossError) Error() string {
	return fmt.Sprintf("stage %q: %d events were discarded: %s", e.stage, e.n, e.reason)
}

// whyEnded says what it means that a subscription did not end well.
func whyEnded(e *stage.SubscriptionError) (why, try string) {
	switch e.Reason {
	case stage.Lost:
		return "a stage cannot know whether it has got everything, when who sends it events is gone for good",
			"see with sluicectl nodes if that node runs, and start this one again; resume_window in from waits longer"
	case stage.Failed:
		return "who sends it events has failed, so what it got is not everything",
			"see why in the log of the node that offers it, then start both again"
	case stage.Refused:
		return "who offers the outlet does not accept the subscription",
			"see that both nodes run the same version, and what sluicectl outlets says about it"
	}
	return "", ""
}

// each returns the errors that were joined.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, each(one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
