package wire

import "github.com/sluicenet/sluice/internal/credit"

// Stream is the attempt whose stream the session is on, or 0 while it has none.
func (p *Producer) Stream() uint64 {
	if !p.attached || p.over {
		return 0
	}
	return p.last.Attempt
}

// Triple is the last Open that was accepted.
func (p *Producer) Triple() Triple { return p.last }

// Granted is what was asked for in all: the echo in Opened.
func (p *Producer) Granted() int64 { return p.granted }

// Sent is the position of the last event that the dispatcher gave.
func (p *Producer) Sent() int64 { return p.sent }

// Acked is the position up to which everything is processed, or given back.
func (p *Producer) Acked() int64 { return p.acked }

// Unacked is how many events are retained.
func (p *Producer) Unacked() int64 { return p.sent - p.acked }

// Credit is what was asked for and not yet sent.
func (p *Producer) Credit() int64 { return credit.Sub(p.granted, p.sent) }

// Allotted is the part of Credit that the dispatcher holds. The rest waits for
// acks, because max_unacked is reached, for what is allotted to be sent, or for a stream.
func (p *Producer) Allotted() int64 { return p.allotted - p.sent }

// Next is the position to be written next on this stream, as Opened says it.
func (p *Producer) Next() int64 { return p.next }

// Ended reports whether no more events are emitted.
func (p *Producer) Ended() bool { return p.ended }

// EndSent reports whether the current stream has carried End.
func (p *Producer) EndSent() bool { return p.endWritten }

// Detached reports whether the session has no stream.
func (p *Producer) Detached() bool { return !p.attached }

// Failed reports whether the consumer wants nothing more.
func (p *Producer) Failed() bool { return p.failed }
