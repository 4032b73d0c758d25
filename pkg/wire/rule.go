package wire

import "google.golang.org/grpc/codes"

// Rule is the name of one rule of the protocol, as it stands in refusals, in logs
// and in errors. Names are stable: they are part of the protocol.
//
// A Rule is an error, so that it can be asked for:
//
//	if errors.Is(err, wire.RuleTypeMismatch) { ... }
//
// is true for an [Error] of that rule, at the end that found it and, by way of
// [FromStatus], at the other.
type Rule string

// Rules of opening a subscription, or going on with one.
const (
	// RuleFirstFrameNotOpen: a stream begins with Open.
	RuleFirstFrameNotOpen Rule = "first-frame-not-open"
	// RuleOpenTwice: Open and Opened come once on a stream.
	RuleOpenTwice Rule = "open-twice"
	// RuleUnsupportedProtocol: both ends speak the same version.
	RuleUnsupportedProtocol Rule = "unsupported-protocol"
	// RuleBadName: an outlet has a name, of at most 255 printable bytes.
	RuleBadName Rule = "bad-name"
	// RuleUnknownOutlet: the node offers an outlet of that name.
	RuleUnknownOutlet Rule = "unknown-outlet"
	// RuleTypeMismatch: both ports carry events of the same type.
	RuleTypeMismatch Rule = "type-mismatch"
	// RuleCodecMismatch: both ports write events in the same way.
	RuleCodecMismatch Rule = "codec-mismatch"
	// RuleSubscriberInvalid: a subscriber has a node and a stage.
	RuleSubscriberInvalid Rule = "subscriber-invalid"
	// RuleStaleOpen: an Open is newer than the last one of its subscriber.
	RuleStaleOpen Rule = "stale-open"
	// RuleUnknownSession: the producer holds the session that goes on.
	RuleUnknownSession Rule = "unknown-session"
	// RuleAlreadySubscribed: an inlet subscribes to an outlet once.
	RuleAlreadySubscribed Rule = "already-subscribed"
	// RuleBusy: what is wanted is kept for a subscriber that may come back, or the stage
	// has too many subscribers that come and go.
	RuleBusy Rule = "busy"
	// RulePartitionRequired: a subscriber of a partitioned outlet names a partition.
	RulePartitionRequired Rule = "partition-required"
	// RulePartitionRange: the partition is one that the outlet has.
	RulePartitionRange Rule = "partition-range"
	// RulePartitionTaken: a partition has one subscriber.
	RulePartitionTaken Rule = "partition-taken"
	// RuleUnsupportedTerms: the outlet's dispatcher knows what the subscriber wants.
	RuleUnsupportedTerms Rule = "unsupported-terms"
	// RuleDraining: a node that is about to leave takes no new subscribers.
	RuleDraining Rule = "draining"
	// RuleSilent: a stream carries a frame within three heartbeats. It is the stream that
	// is cut: the session goes on with another one.
	RuleSilent Rule = "silent"
	// RuleEnded: a session that has ended takes no events, and an outlet that has
	// ended no subscribers.
	RuleEnded Rule = "ended"
	// RuleForbidden: who wants something is allowed to do it.
	RuleForbidden Rule = "forbidden"
	// RuleOtherIdentity: a subscriber is continued by whom it was begun by.
	RuleOtherIdentity Rule = "other-identity"
	// RuleTooManySubscriptions: a peer has no more subscriptions, and streams that are to
	// become some, than the node allows. It may have room for more later.
	RuleTooManySubscriptions Rule = "too-many-subscriptions"
)

// Rules of positions.
const (
	// RuleAskNotPositive: an ask is for at least one event.
	RuleAskNotPositive Rule = "ask-not-positive"
	// RuleAskTooLarge: an ask keeps to the limit of whoever is asked.
	RuleAskTooLarge Rule = "ask-too-large"
	// RuleAckBeyondSent: only what was sent can be acknowledged.
	RuleAckBeyondSent Rule = "ack-beyond-sent"
	// RuleAckGoesBack: what is acknowledged stays so.
	RuleAckGoesBack Rule = "ack-goes-back"
	// RuleTriedRanges: tried ranges are in order, apart from each other, and of what
	// was sent.
	RuleTriedRanges Rule = "tried-ranges"
	// RuleDoneRanges: done ranges are in order, apart from each other and from
	// acked, and within what was sent.
	RuleDoneRanges Rule = "done-ranges"
	// RuleReceivedBeyondSent: only what was sent can have been received.
	RuleReceivedBeyondSent Rule = "received-beyond-sent"
	// RuleReceivedBelowAcked: what is acknowledged was received.
	RuleReceivedBelowAcked Rule = "received-below-acked"
	// RuleGrantedGoesBack: what was asked for is never taken back.
	RuleGrantedGoesBack Rule = "granted-goes-back"
	// RuleGrantedTooLarge: a producer holds no more than was asked for.
	RuleGrantedTooLarge Rule = "granted-too-large"
	// RuleCreditExceeded: no event is sent that was not asked for.
	RuleCreditExceeded Rule = "credit-exceeded"
	// RulePositionGap: positions follow each other.
	RulePositionGap Rule = "position-gap"
	// RuleNotOpened: the producer's first frame is Opened.
	RuleNotOpened Rule = "not-opened"
	// RuleAfterEnd: End is the last frame.
	RuleAfterEnd Rule = "after-end"
	// RuleEndMismatch: End names the position of the last event.
	RuleEndMismatch Rule = "end-mismatch"
	// RuleEndUnacked: a consumer half-closes after End, when it has acknowledged
	// everything.
	RuleEndUnacked Rule = "end-unacked"
	// RuleCancelKind: a Cancel says what becomes of the events on their way.
	RuleCancelKind Rule = "cancel-kind"
)

// Rules of frames and of the events in them.
const (
	// RuleFrameTooLarge: a frame keeps to the limit of its receiver.
	RuleFrameTooLarge Rule = "frame-too-large"
	// RuleEventTooLarge: an event fits into a frame.
	RuleEventTooLarge Rule = "event-too-large"
	// RuleEmptyFrame: a frame carries one of the frames that this version knows.
	RuleEmptyFrame Rule = "empty-frame"
	// RuleEmptyBatch: a batch has events.
	RuleEmptyBatch Rule = "empty-batch"
	// RuleBadAttempts: attempts count each event of a batch, or are left out.
	RuleBadAttempts Rule = "bad-attempts"
	// RuleBadFrame: a frame says what makes sense by itself.
	RuleBadFrame Rule = "bad-frame"
	// RuleEncode: a codec can write the events of its port.
	RuleEncode Rule = "encode"
	// RuleDecode: a codec can read what the other end wrote.
	RuleDecode Rule = "decode"
)

// codeOf is the gRPC code that a refusal by each rule has. It is for tools that
// know gRPC and not sluice; sluice goes by the rule.
var codeOf = map[Rule]codes.Code{
	RuleFirstFrameNotOpen:    codes.InvalidArgument,
	RuleOpenTwice:            codes.InvalidArgument,
	RuleUnsupportedProtocol:  codes.Unimplemented,
	RuleBadName:              codes.InvalidArgument,
	RuleUnknownOutlet:        codes.NotFound,
	RuleTypeMismatch:         codes.FailedPrecondition,
	RuleCodecMismatch:        codes.FailedPrecondition,
	RuleSubscriberInvalid:    codes.InvalidArgument,
	RuleStaleOpen:            codes.Aborted,
	RuleUnknownSession:       codes.NotFound,
	RuleAlreadySubscribed:    codes.AlreadyExists,
	RuleBusy:                 codes.Unavailable,
	RulePartitionRequired:    codes.InvalidArgument,
	RulePartitionRange:       codes.OutOfRange,
	RulePartitionTaken:       codes.AlreadyExists,
	RuleUnsupportedTerms:     codes.Unimplemented,
	RuleDraining:             codes.Unavailable,
	RuleSilent:               codes.Unavailable,
	RuleEnded:                codes.FailedPrecondition,
	RuleTooManySubscriptions: codes.ResourceExhausted,
	RuleForbidden:            codes.PermissionDenied,
	RuleOtherIdentity:        codes.PermissionDenied,
	RuleAskNotPositive:       codes.InvalidArgument,
	RuleAskTooLarge:          codes.InvalidArgument,
	RuleAckBeyondSent:        codes.OutOfRange,
	RuleAckGoesBack:          codes.OutOfRange,
	RuleDoneRanges:           codes.InvalidArgument,
	RuleTriedRanges:          codes.InvalidArgument,
	RuleReceivedBeyondSent:   codes.OutOfRange,
	RuleReceivedBelowAcked:   codes.OutOfRange,
	RuleGrantedGoesBack:      codes.OutOfRange,
	RuleGrantedTooLarge:      codes.OutOfRange,
	RuleCreditExceeded:       codes.OutOfRange,
	RulePositionGap:          codes.OutOfRange,
	RuleNotOpened:            codes.FailedPrecondition,
	RuleAfterEnd:             codes.FailedPrecondition,
	RuleEndMismatch:          codes.OutOfRange,
	RuleEndUnacked:           codes.FailedPrecondition,
	RuleCancelKind:           codes.InvalidArgument,
	RuleFrameTooLarge:        codes.ResourceExhausted,
	RuleEventTooLarge:        codes.ResourceExhausted,
	RuleEmptyFrame:           codes.InvalidArgument,
	RuleEmptyBatch:           codes.InvalidArgument,
	RuleBadAttempts:          codes.InvalidArgument,
	RuleBadFrame:             codes.InvalidArgument,
	RuleEncode:               codes.Internal,
	RuleDecode:               codes.DataLoss,
}

func (r Rule) Error() string { return string(r) }

// Retryable reports whether the same Open, with a higher attempt, may be accepted
// later although nobody changes anything.
func (r Rule) Retryable() bool {
	return r == RuleBusy || r == RuleDraining || r == RuleSilent || r == RuleTooManySubscriptions
}
