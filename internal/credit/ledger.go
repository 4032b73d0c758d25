package credit

// Breach names a step that would break the law of positions.
type Breach string

// The steps that a ledger refuses.
const (
	AskNotPositive Breach = "an ask must be for at least 1"
	SentBeyondAsk  Breach = "more events than asked for"
	AckBeyondSent  Breach = "acknowledged what was not sent"
	AckGoesBack    Breach = "acknowledged less than before"
)

func (b Breach) Error() string { return string(b) }

// Ledger is the producer's half of a subscription: asked for, sent, acknowledged.
// Its zero value is a subscription that has asked for nothing. A method that
// returns a [Breach] has changed nothing.
type Ledger struct {
	granted, sent, acked int64
}

// Ask adds n to what was asked for, saturating at Unbounded.
func (l *Ledger) Ask(n int64) error {
	if n < 1 {
		return AskNotPositive
	}
	l.granted = Add(l.granted, n)
	return nil
}

// Send books n events as sent.
func (l *Ledger) Send(n int64) error {
	if n > l.Credit() {
		return SentBeyondAsk
	}
	l.sent += n
	return nil
}

// Ack books everything up to position to as processed, and returns how many
// events that newly covers.
func (l *Ledger) Ack(to int64) (int64, error) {
	switch {
	case to < l.acked:
		return 0, AckGoesBack
	case to > l.sent:
		return 0, AckBeyondSent
	}
	n := to - l.acked
	l.acked = to
	return n, nil
}

// Credit is what was asked for and not yet sent.
func (l *Ledger) Credit() int64 { return Sub(l.granted, l.sent) }

// Unacked is what was sent and is not yet acknowledged.
func (l *Ledger) Unacked() int64 { return l.sent - l.acked }

// Granted is what was asked for in all.
func (l *Ledger) Granted() int64 { return l.granted }

// Sent is the position of the last event that was sent.
func (l *Ledger) Sent() int64 { return l.sent }

// Acked is the position up to which everything is processed.
func (l *Ledger) Acked() int64 { return l.acked }

// Revoke takes back n of the credit; of unbounded credit, all of it.
func (l *Ledger) Revoke(n int64) {
	if l.granted == Unbounded {
		l.granted = l.sent
		return
	}
	l.granted = max(l.granted-n, l.sent)
}

// Unsend takes back that the last n events were sent.
func (l *Ledger) Unsend(n int64) { l.sent = max(l.sent-n, l.acked) }
