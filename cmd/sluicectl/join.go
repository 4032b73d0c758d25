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

// What the two sides of a subscription have in common.
type subscriptionKey struct {
	outlet, producerNode, consumerNode, consumerStage string
	partitioned                                       bool
	partition                                         int32
}

// sides are the rows that nodes gave for one key. There may be several of a side:
// a subscription that ended is listed beside the one that followed it.
type sides struct {
	producer, consumer []*sluicev1.SubscriptionInfo
}

// join makes one subscription of its two sides.
func join(rows []*sluicev1.SubscriptionInfo) []subscription {
	joined := make([]subscription, 0, len(rows))
	var keys []subscriptionKey
	byKey := map[subscriptionKey]*sides{}
	for _, row := range rows {
		k := keyOf(row)
		if byKey[k] == nil {
			byKey[k] = &sides{}
			keys = append(keys, k)
		}
		switch row.GetSide() {
		case sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER:
			byKey[k].producer = append(byKey[k].producer, row)
		case sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER:
			byKey[k].consumer = append(byKey[k].consumer, row)
		default:
			joined = append(joined, newSubscription(row, row, word(row.GetSide(), "SUBSCRIPTION_SIDE_")))
		}
	}
	for _, k := range keys {
		joined = append(joined, byKey[k].pair()...)
	}
	return joined
}

func keyOf(s *sluicev1.SubscriptionInfo) subscriptionKey {
	return subscriptionKey{
		outlet:        s.GetOutlet(),
		producerNode:  s.GetProducerNode(),
		consumerNode:  s.GetConsumerNode(),
		consumerStage: s.GetConsumerStage(),
		partitioned:   s.Partition != nil,
		partition:     s.GetPartition(),
	}
}

// pair joins what lives with what lives, and then the rest in the order it came.
func (s *sides) pair() []subscription {
	liveFirst := func(a, b *sluicev1.SubscriptionInfo) int {
		return cmp.Compare(ended(a), ended(b))
	}
	slices.SortStableFunc(s.producer, liveFirst)
	slices.SortStableFunc(s.consumer, liveFirst)

	var pairs []subscription
	for i := range max(len(s.producer), len(s.consumer)) {
		switch {
		case i >= len(s.consumer):
			pairs = append(pairs, newSubscription(s.producer[i], nil, "producer"))
		case i >= len(s.producer):
			pairs = append(pairs, newSubscription(nil, s.consumer[i], "consumer"))
		default:
			pairs = append(pairs, newSubscription(s.producer[i], s.consumer[i], "producer", "consumer"))
		}
	}
	return pairs
}

func ended(s *sluicev1.SubscriptionInfo) int {
	if s.GetState() == "ended" {
		return 1
	}
	return 0
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
