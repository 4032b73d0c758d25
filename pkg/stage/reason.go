package stage

// Reason says why a subscription ended. The set is closed.
type Reason int

const (
	// Completed: the producer came to its end by itself.
	Completed Reason = iota + 1
	// Shutdown: the producer was stopped.
	Shutdown
	// Cancelled: the consumer asked for it.
	Cancelled
	// Failed: the producer failed.
	Failed
	// Refused: the producer did not accept the subscription, or broke it because a
	// rule was not met.
	Refused
	// Lost: the producer could not be reached within the resume window.
	Lost
)

func (r Reason) String() string {
	switch r {
	case Completed:
		return "completed"
	case Shutdown:
		return "shutdown"
	case Cancelled:
		return "cancelled"
	case Failed:
		return "failed"
	case Refused:
		return "refused"
	case Lost:
		return "lost"
	}
	return "unknown"
}

// Normal reports whether a subscription that ended so ended well: completed,
// shutdown or cancelled.
func (r Reason) Normal() bool { return r == Completed || r == Shutdown || r == Cancelled }

// Ending is how a subscription ended.
type Ending struct {
	Reason Reason
	// Err says more, where there is more to say: an end that is not normal has one.
	Err error
	// Drop says that the producer has given to others what the consumer has received
	// and not begun to handle: it is not handled here.
	Drop bool
}
