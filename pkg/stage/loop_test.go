package stage

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was handed over is let go of at once, and not with the next event.
func TestOutletKeepsNothing(t *testing.T) {
	src := NewSource(func(context.Context, int) ([]*int, error) { return nil, nil })
	require.NoError(t, src.out.emit([]*int{new(int), new(int), new(int)}))
	sink := NewSink(func(context.Context, []*int) error { return nil })
	_, err := Subscribe(t.Context(), src, sink, MaxDemand(2))
	require.NoError(t, err)
	buf := src.out.core.store.lanes[0].fresh.buf
	require.Equal(t, []*int{nil, nil}, buf[:2])
	require.NotNil(t, buf[2])
}

// A subscription that is accepted at the last moment is not withdrawn.
func TestAcceptedAtTheLastMoment(t *testing.T) {
	sink := NewSink(func(context.Context, []int) error { return nil })
	src := NewSource(func(context.Context, int) ([]int, error) { return nil, nil })
	sub, err := Subscribe(t.Context(), src, sink)
	require.NoError(t, err)
	withdrawn, _ := sink.in.withdraw(sub)
	require.False(t, withdrawn)
	require.Equal(t, "flowing", sub.Info().State)

	late := newSubscription()
	require.True(t, late.withdraw())
	late.opened()
	require.False(t, late.isOpen(), "it does not come to life")
	require.Equal(t, Cancelled, late.Ending().Reason)
}
