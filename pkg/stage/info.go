package stage

import "time"

// Info is a snapshot of a stage.
type Info struct {
	Name string
	// Kind is source, gate or sink.
	Kind string
	// State is ready, running, retrying, ending, ended or failed.
	State string
	// Err is why the stage failed, or while it is retrying what its handler said. Attempt
	// is then how often the handler has had in vain what is tried again.
	Err     error
	Attempt int
	// In and Out are the events processed, and the events produced.
	In, Out int64
	// Buffered is how many events wait, Waiting how many in each lane.
	Buffered int
	Waiting  []int
	// Unmet is the demand that is not met, Departed the part of it that only those
	// have asked for who have left since.
	Unmet, Departed int64
	// Messages is how many messages and hooks wait for the stage's goroutine.
	Messages int
	// Busy, Idle and Blocked are where the time of the stage's goroutine has gone, until
	// the stage began to end. Busy: it ran a handler, also one that waited for something.
	// Blocked: it waited for others, a source for demand, or a gate that holds its asks
	// until somebody wants more. Idle: it waited otherwise, a source with demand for a
	// push or a message, a gate or a sink for input.
	Busy, Idle, Blocked time.Duration
	// Dispatcher and Lanes describe the outlet.
	Dispatcher string
	Lanes      int
	// Discarded counts the events that were given up, by reason.
	Discarded map[string]int64
	// DeadLettered counts the events that the handler could not handle and that were sent
	// to the dead letters.
	DeadLettered int64
	// Workers is how many workers run, Failed how many have failed and were given up,
	// Abandoned how many went on after they were told to end.
	Workers           int
	Failed, Abandoned int64
	// Subscriptions are the stage's own; Subscribers are those of others to it.
	Subscriptions, Subscribers []SubscriptionInfo
}

// SubscriptionInfo is a snapshot of one end of a subscription.
type SubscriptionInfo struct {
	Outlet string
	// Publisher is the node that it goes to, of those that offer the outlet: each has a
	// row. It is empty in one process, and for one that has found none.
	Publisher string
	Terms     Terms
	// State is one word: waiting, held, in-flight, draining, no-demand, no-events,
	// flowing or ended.
	State string
	// The positions: asked for in all, sent, received, and processed up to there. Held
	// asks are not granted yet. What this end cannot know is 0: at a consumer what a
	// producer in another process has sent, at a producer what a consumer there has
	// received.
	Granted, Sent, Received, Acked int64
	// Open is the open demand, what was granted and is not processed. Credit is what was
	// granted and is not sent, or at a consumer has not arrived. Unbounded demand is
	// math.MaxInt64.
	Open, Credit int64
	// Held is the sum of the asks that are held back, by a gate at its inlet, or by a
	// source that accumulates demand.
	Held int64
	// Pending is how many events are neither here nor there: sent and not acknowledged,
	// or at a consumer received and not processed.
	Pending int64
	// Demand is what [AutoDemand] has made of the max demand, at a consumer, and Why says
	// in words what it goes by. Without it they are 0 and empty.
	Demand int64
	Why    string
	// LeftOut is how many events a selector ([Where]) that runs at this end did not keep.
	LeftOut int64
}

// discard adds n events that were given up.
func (i *Info) discard(reason string, n int64) {
	if n == 0 {
		return
	}
	if i.Discarded == nil {
		i.Discarded = map[string]int64{}
	}
	i.Discarded[reason] += n
}
