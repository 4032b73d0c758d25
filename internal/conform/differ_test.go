package conform

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// What stagetest.OnAWire says is so: these tests show what happens instead.

func running(t *testing.T, stages ...stage.Runner) (wait func() error, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stage.Run(ctx, stages...) }()
	return func() error { return <-done }, cancel
}

func pass(i int) int { return i }

// SUB-05
func TestWhoComesLateIsToldHowItEnded(t *testing.T) {
	s := stage.NewSource(func(context.Context, int) ([]int, error) { return nil, context.DeadlineExceeded })
	out := &joined{outlet: s}
	first := stage.NewSink(func(context.Context, []int) error { return nil })
	stage.Connect(out, first)
	require.Error(t, stage.Run(t.Context(), s, first))

	late := stage.NewSink(func(context.Context, []int) error { return nil })
	wait, stop := running(t, late)
	defer stop()
	sub, err := stage.Subscribe(t.Context(), out, late, stage.Temporary)
	require.NoError(t, err)
	<-sub.Done()
	require.Equal(t, stage.Failed, sub.Ending().Reason)
	require.ErrorContains(t, sub.Ending().Err, context.DeadlineExceeded.Error())
	stop()
	require.ErrorIs(t, wait(), context.Canceled)
}

// SUB-07
func TestGateMayFeedItself(t *testing.T) {
	g := stage.NewGate(stage.Map(pass))
	wait, stop := running(t, g)
	_, err := stage.Subscribe(t.Context(), &joined{outlet: g}, g)
	require.NoError(t, err)
	stop()
	require.ErrorIs(t, wait(), context.Canceled)
}

// DBX-18, DPX-14: any dispatcher does, and what is dropped has used up demand.
func TestSelectorRunsAtTheConsumer(t *testing.T) {
	s := stage.NewSource[int](nil)
	k := stage.NewSink(func(context.Context, []int) error { return nil })
	sub := stage.Connect(stage.Where[int](&joined{outlet: s}, func(i int) bool { return i%2 == 0 }), k, stage.MaxDemand(6), stage.MinDemand(0))
	require.NoError(t, s.Push(0, 1, 2, 3, 4, 5, 6))
	s.Finish()
	waitK, _ := running(t, k)
	require.NoError(t, s.Run(t.Context()))
	require.NoError(t, waitK())
	require.EqualValues(t, 7, sub.Info().Received)
	require.EqualValues(t, 12, sub.Info().Granted)
}
