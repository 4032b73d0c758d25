// Package dispatchtest holds a dispatcher to the contract of [dispatch.Dispatcher],
// one of a user's own too:
//
//	func TestRoundRobin(t *testing.T) {
//		dispatchtest.Test(t, func() dispatch.Dispatcher[int] { return NewRoundRobin[int]() })
//	}
package dispatchtest

import (
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"pgregory.net/rapid"
)

// Test checks that the dispatchers that newDispatcher returns, a new one for each
// call, keep the contract, whatever happens to them and in whatever order:
//
//   - Nobody is given more than it asked for, nothing is given to who has left or was
//     refused, and nobody is given an event twice.
//   - Next gives what waits, and no more than that. It comes to an end.
//   - What is given is booked: it is taken off Demand, and what is left is what can
//     still be given. Where every lane has an event and something is asked for,
//     something is given.
//   - Every event has one lane, which exists and does not change.
//   - A refused Join, and whatever is said of a subscriber that is not there, changes
//     nothing. Refusals are the errors of package dispatch.
//   - Revoke returns what was asked for and not given, and leaves nothing of it.
//   - Sums of asks saturate.
//
// Who of several subscribers is given an event is the dispatcher's own business. To
// of a delivery is not looked at after the next call.
//
// It takes random steps. What fails is shrunk, and shown step by step; package rapid
// says how to repeat it.
func Test(t *testing.T, newDispatcher func() dispatch.Dispatcher[int]) {
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { l.hold(begin(t, newDispatcher())) })
		})
	}
}

type law struct {
	name string
	hold func(*play)
}

var laws = []law{
	{"steps", (*play).steps},
	{"admission", (*play).admission},
	{"saturation", (*play).saturation},
}
