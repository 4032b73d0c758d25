package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

func side(side sluicev1.SubscriptionSide, state string, change ...func(*sluicev1.SubscriptionInfo)) *sluicev1.SubscriptionInfo {
	s := &sluicev1.SubscriptionInfo{
		Outlet: "numbers", ProducerNode: "a", ConsumerNode: "b", ConsumerStage: "doubler",
		Side: side, State: state,
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func produced(state string, change ...func(*sluicev1.SubscriptionInfo)) *sluicev1.SubscriptionInfo {
	return side(sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER, state, change...)
}

func consumed(state string, change ...func(*sluicev1.SubscriptionInfo)) *sluicev1.SubscriptionInfo {
	return side(sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER, state, change...)
}

func session(n uint64) func(*sluicev1.SubscriptionInfo) {
	return func(s *sluicev1.SubscriptionInfo) { s.Session = n }
}

func partition(n int32) func(*sluicev1.SubscriptionInfo) {
	return func(s *sluicev1.SubscriptionInfo) { s.Partition = &n }
}

func told(subs []subscription) [][]string {
	var all [][]string
	for _, s := range subs {
		all = append(all, append([]string{s.State}, s.Sides...))
	}
	return all
}

func TestJoin(t *testing.T) {
	for name, test := range map[string]struct {
		rows []*sluicev1.SubscriptionInfo
		want [][]string
	}{
		"both sides are one subscription": {
			rows: []*sluicev1.SubscriptionInfo{consumed("flowing"), produced("flowing")},
			want: [][]string{{"flowing", "producer", "consumer"}},
		},
		"the first state holds, whoever says it": {
			rows: []*sluicev1.SubscriptionInfo{produced("no-events"), consumed("flowing")},
			want: [][]string{{"no-events", "producer", "consumer"}},
		},
		"what is over for one is over": {
			rows: []*sluicev1.SubscriptionInfo{produced("flowing"), consumed("ended")},
			want: [][]string{{"ended", "producer", "consumer"}},
		},
		"a word that is new says less than one that is known": {
			rows: []*sluicev1.SubscriptionInfo{produced("resting"), consumed("flowing")},
			want: [][]string{{"flowing", "producer", "consumer"}},
		},
		"no partition is not partition 0": {
			rows: []*sluicev1.SubscriptionInfo{produced("flowing"), consumed("flowing", partition(0))},
			want: [][]string{{"flowing", "producer"}, {"flowing", "consumer"}},
		},
		"an ended one does not take the side of its successor": {
			rows: []*sluicev1.SubscriptionInfo{consumed("ended", session(1)), consumed("flowing", session(2)), produced("flowing", session(2))},
			want: [][]string{{"ended", "consumer"}, {"flowing", "producer", "consumer"}},
		},
		"what was sent and not received is on the wire": {
			rows: []*sluicev1.SubscriptionInfo{
				produced("no-demand", func(s *sluicev1.SubscriptionInfo) { s.Sent = 10 }),
				consumed("no-events", func(s *sluicev1.SubscriptionInfo) { s.Received = 9 }),
			},
			want: [][]string{{"wire", "producer", "consumer"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, told(join(test.rows)))
		})
	}
}

// Each side counts what it does; one that has not told leaves a gap, not a 0.
func TestPositions(t *testing.T) {
	p := produced("flowing", func(s *sluicev1.SubscriptionInfo) { s.Granted, s.Sent, s.Acked = 100, 90, 40 })
	c := consumed("flowing", func(s *sluicev1.SubscriptionInfo) { s.Granted, s.Received, s.Acked = 110, 80, 50 })
	n := func(n int64) *int64 { return &n }

	f := func(got subscription, granted int64, sent, received *int64, acked int64) {
		t.Helper()
		require.Equal(t, granted, got.Granted)
		require.Equal(t, sent, got.Sent)
		require.Equal(t, received, got.Received)
		require.Equal(t, acked, got.Acked)
	}
	f(newSubscription(p, c), 100, n(90), n(80), 50)
	f(newSubscription(p, nil), 100, n(90), nil, 40)
	f(newSubscription(nil, c), 110, nil, n(80), 50)
	f(newSubscription(produced(""), consumed("")), 0, n(0), n(0), 0)
}
