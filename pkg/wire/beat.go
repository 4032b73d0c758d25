package wire

import (
	"time"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Heartbeats: each end of a stream that has sent nothing for an interval sends a sign
// of life, Idle or an Ack that is repeated. Who is silent for [Silence] is cut off.
const (
	// DefaultHeartbeat is the interval that an end wants which has no reason for
	// another one.
	DefaultHeartbeat = 10 * time.Second
	// MaxHeartbeat is the longest interval that a peer can bring an end to: what dies in
	// silence is noticed after three of them at the latest.
	MaxHeartbeat = time.Minute
)

// Heartbeat is the interval that holds for a stream, at the end that wants own: the
// longer one of what both want. So nobody is made to beat faster than it wants to, and
// a peer's slowness is bounded by MaxHeartbeat. A peer that says nothing leaves it to
// this end.
func Heartbeat(own time.Duration, peer *durationpb.Duration) time.Duration {
	return max(own, min(peer.AsDuration(), MaxHeartbeat))
}

// Silence is how long a stream with that heartbeat may carry nothing before it counts
// as broken: as long as three beats.
func Silence(beat time.Duration) time.Duration { return 3 * beat }

// Idle returns the sign of life that is due on the session's stream, or nil where the
// stream has carried End, which is the last frame. backlog is how many events wait.
func (p *Producer) Idle(backlog int64) *sluicev1.ProducerFrame {
	if !p.attached || p.over || p.endWritten {
		return nil
	}
	return IdleFrame(p.sent, backlog)
}

// Repeat makes a frame due although it may say nothing new: a sign of life. It is an
// Ack, or the Cancel of a consumer that has failed.
func (c *Consumer) Repeat() {
	if c.Failed() && c.end == nil {
		c.on.cancel = 0
	}
	c.on.owed = true
}
