package node

import (
	"context"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A consumer that sizes its demand asks a producer elsewhere for less when it is the
// brake, and for more when it is not any more. Operators see what it goes by, sizes
// included; the producer knows the terms, and nothing of this.
// Rows AUT-05..06.
func TestAutoDemand(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var slow atomic.Bool
	slow.Store(true)
	next := 0
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		for _, e := range events {
			require.Equal(t, next, e)
			next++
		}
		if slow.Load() {
			time.Sleep(time.Duration(len(events)) * time.Second / 10_000)
		}
		return nil
	})
	sub := stage.Connect(Outlet(b, ints), sink, stage.AutoDemand(stage.Auto{Max: 20_000}))
	start(t, b, sink)
	brake := regexp.MustCompile("^demand is automatic: the consumer is the brake.*; round trip .*; [1-7] bytes an event$")
	var row *sluicev1.SubscriptionInfo
	eventually(t, "it has shrunk, and says so", func() bool {
		reply, err := (&admin{n: b}).ListSubscriptions(t.Context(), &sluicev1.ListSubscriptionsRequest{Scope: sluicev1.Scope_SCOPE_NODE})
		require.NoError(t, err)
		require.Len(t, reply.GetSubscriptions(), 1)
		row = reply.GetSubscriptions()[0]
		return row.GetMaxDemand() < 600 && brake.MatchString(row.GetReason())
	})
	require.Equal(t, row.GetMaxDemand()*3/4, row.GetMinDemand())
	served := a.publications()[0].rows()[0]
	require.Equal(t, []int64{1000, 750}, []int64{served.GetMaxDemand(), served.GetMinDemand()})
	require.Empty(t, served.GetReason())

	before := row.GetMaxDemand()
	slow.Store(false)
	eventually(t, "it has grown", func() bool { return sub.Info().Demand >= 2*before })
}
