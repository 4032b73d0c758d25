package wire

import "github.com/sluicenet/sluice/internal/credit"

// Opening is what an Open says about its session.
type Opening struct {
	Triple
	// Known says that the consumer has seen Opened for this session.
	Known bool
	// Granted, Received and Acked are the positions that the consumer knows: asked
	// for in all, received, processed.
	Granted, Received, Acked int64
	// Done are the positions above Acked that are processed too.
	Done []credit.Range
}

// check looks for what no producer needs to know the session for.
func (o *Opening) check() error {
	switch {
	case o.Incarnation == 0 || o.Session == 0 || o.Attempt == 0:
		return broken(RuleBadFrame, "incarnation, session and attempt are %d, %d, %d", o.Incarnation, o.Session, o.Attempt).
			hint("each of them counts from 1")
	case o.Granted < 0 || o.Received < 0 || o.Acked < 0:
		return broken(RuleBadFrame, "granted, received and acked are %d, %d, %d", o.Granted, o.Received, o.Acked)
	case o.Received < o.Acked:
		return broken(RuleReceivedBelowAcked, "Open says that %d are processed and %d received", o.Acked, o.Received)
	case !o.Known && o.Received > 0:
		return broken(RuleBadFrame, "%d events were received, and Opened was not", o.Received)
	case o.Received > o.Granted:
		return broken(RuleReceivedBeyondSent, "Open says that %d are received and %d asked for", o.Received, o.Granted)
	}
	return checkDone(o.Done, o.Acked, o.Received)
}

// checkTried looks at the ranges that a handler had, of those up to last. They may name
// what is processed by now: whoever repeats a Cancel repeats them.
func checkTried(tried []credit.Range, last int64) error {
	if len(tried) > 0 && !credit.Check(tried, -1, last) {
		return broken(RuleTriedRanges, "%v are not ranges in order between 1 and %d", tried, last)
	}
	return nil
}

// checkDone looks at done ranges that belong to acked. No position in them is
// beyond last.
func checkDone(done []credit.Range, acked, last int64) error {
	if len(done) > 0 && !credit.Check(done, acked, last) {
		done = done[:min(len(done), 8)] // for the words
		return broken(RuleDoneRanges, "%v are not ranges in order between %d and %d", done, acked+2, last)
	}
	return nil
}
