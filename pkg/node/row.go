package node

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// row is what an operator sees.
func (v *served[T]) row() *sluicev1.SubscriptionInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	state, reason := "flowing", ""
	switch {
	case v.stream == nil:
		state = "reconnecting"
	case v.ending != nil || v.core.Ended() || v.p.n.draining.Load():
		state = "draining"
	case v.core.Credit() == 0:
		state = "no-demand"
	case v.core.Allotted() == 0, v.full():
		state = "paused"
	case len(v.queue) > 0 && v.short():
		state, reason = "paused", v.p.n.budget.why()
	case len(v.queue) == 0:
		state = "no-events"
	}
	r := &sluicev1.SubscriptionInfo{
		Outlet: v.p.port.Name(), ProducerNode: v.p.n.config.Name,
		ConsumerNode: v.who.node, ConsumerStage: v.who.stage,
		Side:  sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_PRODUCER,
		State: state, MaxDemand: v.terms.MaxDemand, MinDemand: v.terms.MinDemand,
		Granted: v.core.Granted(), Sent: v.core.Sent(), Acked: v.core.Acked(),
		Age: durationpb.New(time.Since(v.since)), Incarnation: v.triple.Incarnation, Session: v.triple.Session, Reason: reason,
	}
	if v.who.partition >= 0 {
		p := int32(v.who.partition)
		r.Partition = &p
	}
	return r
}
