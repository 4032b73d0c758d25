package wire

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEveryRuleCrossesTheWire(t *testing.T) {
	for rule := range codeOf {
		t.Run(string(rule), func(t *testing.T) {
			here := &Error{Rule: rule, Outlet: "numbers", Node: "a", Epoch: 7, What: "it happened", Hint: "do this"}
			require.ErrorIs(t, here, rule)
			require.NotErrorIs(t, here, Rule("another"))

			there, ok := FromStatus(here.Status().Err())
			require.True(t, ok)
			require.ErrorIs(t, there, rule)
			require.Equal(t, &Error{Rule: rule, Epoch: 7, What: "it happened", Hint: "do this"}, there)
			require.Equal(t, here.Retryable(), there.Retryable())
			require.NotContains(t, []codes.Code{codes.OK, codes.Unknown}, here.Status().Code())
		})
	}
}

func TestServiceCanReturnAnError(t *testing.T) {
	s := status.Convert(fmt.Errorf("serving: %w", broken(RuleBusy, "partition 3")))
	require.Equal(t, codes.Unavailable, s.Code())
	e, ok := FromStatus(s.Err())
	require.True(t, ok)
	require.ErrorIs(t, e, RuleBusy)
}

func TestErrorIsOneLine(t *testing.T) {
	f := func(want string, e Error) {
		t.Helper()
		require.EqualError(t, &e, want)
	}
	f("busy", Error{Rule: RuleBusy})
	f("busy: partition 3", Error{Rule: RuleBusy, What: "partition 3"})
	f("busy (wait)", Error{Rule: RuleBusy, Hint: "wait"})
	f("busy: partition 3 (wait)", Error{Rule: RuleBusy, What: "partition 3", Hint: "wait"})
	f("orders: busy", Error{Rule: RuleBusy, Outlet: "orders"})
	f("a: busy", Error{Rule: RuleBusy, Node: "a"})
	f("orders at a: busy: partition 3", Error{Rule: RuleBusy, Outlet: "orders", Node: "a", What: "partition 3"})
}

func TestFromStatusKnowsItsOwn(t *testing.T) {
	own := broken(RuleEnded, "")
	e, ok := FromStatus(fmt.Errorf("subscribing: %w", own))
	require.True(t, ok)
	require.Same(t, own, e)

	later, err := status.New(codes.Aborted, "x").WithDetails(&sluicev1.Refusal{Rule: "rule-of-a-later-version"})
	require.NoError(t, err)
	e, ok = FromStatus(later.Err())
	require.True(t, ok)
	require.ErrorIs(t, e, Rule("rule-of-a-later-version"))
	require.Equal(t, codes.Unknown, e.Status().Code())
}

func TestFromStatusLeavesOthersAlone(t *testing.T) {
	nameless, err := status.New(codes.Aborted, "x").WithDetails(&sluicev1.Refusal{}, &sluicev1.Range{})
	require.NoError(t, err)
	for _, err := range []error{nil, errors.New("x"), status.Error(codes.Unavailable, "x"), nameless.Err(), RuleBusy} {
		_, ok := FromStatus(err)
		require.False(t, ok, "%v", err)
	}
}

func TestRetryable(t *testing.T) {
	retryable := []Rule{RuleBusy, RuleDraining, RuleSilent, RuleTooManySubscriptions}
	for rule := range codeOf {
		require.Equal(t, slices.Contains(retryable, rule), rule.Retryable(), rule)
	}
}
