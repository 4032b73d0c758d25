package node

import (
	"context"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// leaves books by when the producer will have ended, as it has said. The session goes
// on until its End: it is asked as ever for what it still has.
func (i *inflow[T]) leaves(until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.until = until
}

// expectEnd waits for the End that answers a Cancel, which has just been sent on a
// stream. It is overdue when nothing has come for as long as tuning.answer, and nothing
// is left to process that would hold it up: a producer whose room for what is
// un-acknowledged is full sends no End. Then a drain becomes a failure, and the stage is
// let go; when that is not answered either, cut ends the stream, and the session is
// given up. The producer's window says the rest.
func (i *inflow[T]) expectEnd(ctx context.Context, cut func()) *time.Timer {
	patience := i.n.tuning.answer
	var late *time.Timer
	var seen int64
	i.mu.Lock()
	defer i.mu.Unlock()
	late = time.AfterFunc(patience, func() {
		if ctx.Err() != nil {
			return
		}
		i.mu.Lock()
		_, _, ended := i.core.Ended()
		failed := i.core.Failed()
		received := i.core.Received()
		moves := !failed && (received > i.core.Acked() || received > seen)
		seen = received
		switch {
		case ended:
		case moves:
			late.Reset(patience)
		case failed:
			i.mute = true
		default:
			_ = i.core.Cancel(sluicev1.CancelKind_CANCEL_KIND_FAILED, "no End has answered its Cancel")
			i.poke()
			late.Reset(patience)
		}
		mute := i.mute
		i.mu.Unlock()
		if !ended && !moves {
			i.give(stage.Ending{Reason: stage.Cancelled})
		}
		if mute {
			i.n.log.Warn("a producer answers no Cancel", "outlet", i.port.Name(), "at", i.at.node)
			cut()
		}
	})
	return late
}

// hopeless reports whether the producer leaves Cancels without an answer.
func (i *inflow[T]) hopeless() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mute
}
