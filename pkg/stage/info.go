package stage

// Info is a snapshot of a stage.
type Info struct {
	Name string
	// Kind is source, gate or sink.
	Kind string
	// State is ready, running, ending, ended or failed.
	State string
	// Err is why the stage failed.
	Err error
	// In and Out are the events processed, and the events produced.
	In, Out int64
	// Buffered is how many events wait, Unmet the demand that is not met.
	Buffered int
	Unmet    int64
	// Dispatcher and Lanes describe the outlet.
	Dispatcher string
	Lanes      int
	// Discarded counts the events that were given up, by reason.
	Discarded map[string]int64
	// Workers is how many workers run, Failed how many have failed and were given up,
	// Abandoned how many went on after they were told to end.
	Workers           int
	Failed, Abandoned int64
	// Subscriptions are the stage's own; Subscribers are those of others to it.
	Subscriptions, Subscribers []SubscriptionInfo
}

// SubscriptionInfo is a snapshot of one end of a subscription. The positions that
// this end cannot know are 0.
type SubscriptionInfo struct {
	Outlet string
	Terms  Terms
	// State is one word: waiting, held, in-flight, draining, no-demand, no-events,
	// flowing or ended.
	State                          string
	Granted, Sent, Received, Acked int64
}
