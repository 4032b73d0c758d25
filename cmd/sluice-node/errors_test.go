package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

func TestFailureOf(t *testing.T) {
	says := func(err error, lines ...string) {
		t.Helper()
		var b strings.Builder
		failureOf(err).write(&b)
		require.Equal(t, strings.Join(lines, "\n")+"\n", b.String())
	}
	lost := &stage.SubscriptionError{Outlet: "loud", Reason: stage.Lost, Err: fmt.Errorf("node %q did not come back within 30s", "b")}
	says(&stage.Error{Stage: "out", Err: lost},
		`sluice-node: stage "out": subscription to "loud" lost: node "b" did not come back within 30s`,
		`  why: a stage cannot know whether it has got everything, when who sends it events is gone for good`,
		`  try: see with sluicectl nodes if that node runs, and start this one again; resume_window in from waits longer`)
	says(errors.New("x"), `sluice-node: x`)
	says(&lossError{"loud", "too large", 3},
		`sluice-node: stage "loud": 3 events were discarded: too large`,
		`  why: all stages have ended, but not all events have arrived`,
		`  try: see in the log when that was; what is too large for a message between nodes can be filtered out before`)
}

func TestEach(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	require.Nil(t, each(nil))
	require.Equal(t, []error{a}, each(a))
	require.Equal(t, []error{a, b, c}, each(errors.Join(a, errors.Join(b, c))))
}
