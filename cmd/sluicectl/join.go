package main

import (
	"cmp"
	"slices"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The states of a subscription, in the order in which they count: where its two
// sides disagree, the first one holds.
var states = []string{
	"ended", "reconnecting", "draining", "waiting", "opening", "paused", "held",
	"in-flight", "wire", "no-demand", "no-events", "flowing",
}

// What the two sides of a subscription have in common. Incarnation and session tell
// a subscription that has ended from the one that followed it.
type subscriptionKey struct {
	outlet, producerNode, consumerNode, consumerStage string
	partitioned                                       bool
	partition                                         int32
	incarnation, session                              uint64
}

func keyOf(s *sluicev1.SubscriptionInfo) subscriptionKey {
	return subscriptionKey{
		outlet:        s.GetOutlet(),
		producerNode:  s.GetProducerNode(),
		consumerNode:  s.GetConsumerNode(),
		consumerStage: s.GetConsumerStage(),
		partitioned:   s.Partition != nil,
		partition:     s.GetPartition(),
		incarnation:   s.GetIncarnation(),
		session:       s.GetSession(),
	}
}

// sides are the rows of one subscription, as far as nodes gave them.
type sides struct{ producer, consumer *sluicev1.SubscriptionInfo }

// join makes one subscription of its two sides.
func join(rows []*sluicev1.SubscriptionInfo) []subscription {
	joined := make([]subscription, 0, len(rows))
	var keys []subscriptionKey
	byKey := map[subscriptionKey]*sides{}
	for _, row := range rows {
		if row.GetSide() == sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_LOCAL {
			joined = append(joined, newSubscription(row, row, "local"))
			continue
		}
		k := keyOf(row)
		if byKey[k] == nil {
			byKey[k] = &sides{}
			keys = append(keys, k)
		}
		if row.GetSide() == sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER {
			byKey[k].producer = row
		} else {
			byKey[k].consumer = row
		}
	}
	for _, k := range keys {
		joined = append(joined, byKey[k].join())
	}
	return joined
}

func (s *sides) join() subscription {
	switch {
	case s.consumer == nil:
		return newSubscription(s.producer, nil, "producer")
	case s.producer == nil:
		return newSubscription(nil, s.consumer, "consumer")
	}
	both := newSubscription(s.producer, s.consumer, "producer", "consumer")
	// Neither side can see alone that events are on their way.
	if *both.Sent > *both.Received && slices.Index(states, both.State) > slices.Index(states, "wire") {
		both.State = "wire"
	}
	return both
}

// newSubscription takes from each side what that side knows best. One of them may
// be nil.
func newSubscription(producer, consumer *sluicev1.SubscriptionInfo, told ...string) subscription {
	upstream, downstream := cmp.Or(producer, consumer), cmp.Or(consumer, producer)
	state := upstream
	if rank(downstream) < rank(upstream) {
		state = downstream
	}
	demand := downstream
	if demand.GetMaxDemand() == 0 {
		demand = upstream
	}
	return subscription{
		Outlet:        upstream.GetOutlet(),
		ProducerNode:  upstream.GetProducerNode(),
		ConsumerNode:  upstream.GetConsumerNode(),
		ConsumerStage: upstream.GetConsumerStage(),
		Partition:     upstream.Partition,
		Sides:         told,
		State:         cmp.Or(state.GetState(), "unknown"),
		MaxDemand:     demand.GetMaxDemand(),
		MinDemand:     demand.GetMinDemand(),
		Granted:       upstream.GetGranted(),
		Sent:          position(upstream.GetSent(), producer != nil),
		Received:      position(downstream.GetReceived(), consumer != nil),
		Acked:         downstream.GetAcked(),
		AgeSeconds:    seconds(state.GetAge()),
		Reason:        cmp.Or(state.GetReason(), downstream.GetReason(), upstream.GetReason()),
	}
}

// position is a number as the side that counts it knows it. Where that side has
// not told, the other one may know; its 0 says that it does not.
func position(n int64, counted bool) *int64 {
	if n == 0 && !counted {
		return nil
	}
	return &n
}

func rank(s *sluicev1.SubscriptionInfo) int {
	if i := slices.Index(states, s.GetState()); i >= 0 {
		return i
	}
	return len(states)
}
