// Package wire is what sluice speaks between processes: ports, codecs, frames, and
// both halves of a session.
//
// Nothing in it runs by itself. There is no goroutine, lock, clock or connection
// here, and nothing is logged: a [Producer] and a [Consumer] are plain values with
// one owner at a time, whose methods say what to do next or which [Rule] was
// broken. Whoever moves the frames is free to do so as it likes.
//
// # What is guaranteed
//
// Between two processes that live, whatever happens to the streams between them,
// and as often as it happens: every event that was sent is processed once, in
// order, and no event is sent that was not asked for. What a consumer did not
// process, because it failed or is gone, is given back, and only that. A peer that
// breaks the protocol ends its own subscription, by the name of the rule.
//
// The rest of this page is the protocol.
//
// # Frames
//
// A subscription is a bidirectional stream, and a session is a subscription over
// all the streams that carry it one after the other. The consumer opens each of
// them and sends:
//
//	Open     first, once. Who subscribes to what; incarnation, session, attempt;
//	         granted, received, acked and done ranges; whether it has seen Opened
//	Ask      n more, n >= 1; acked, done ranges
//	Ack      acked, done ranges; asks for nothing
//	Cancel   drain or failed; acked, done ranges; a reason in words
//
// It half-closes the stream when it has seen End and everything is acknowledged.
// The producer sends:
//
//	Opened   first, once. Its epoch; granted, an echo; the next position; limits; the
//	         interval of signs of life
//	Batch    events, the position of the first, how often each was tried before;
//	         more, when this delivery goes on in the next frame; backlog
//	Idle     sent, backlog: a sign of life
//	Draining a deadline: the producer is about to end
//	End      last. The last position, the reason, a message
//
// It closes the stream with OK after the half-close, or at any time with a status
// that has a Refusal in its details: the rule, and its epoch. A stream that ends in
// any other way broke, and the session goes on.
//
// # Positions
//
// Positions count the events of a session from 1. They are said as totals, never
// as differences, except in Ask:
//
//	granted   asked for in all; saturates at "unbounded", the largest int64
//	sent      the position of the last event that was sent
//	received  of the last event that arrived
//	acked     everything up to it is processed; done ranges are above it
//
// Done ranges add up: a frame says those that its stream has not carried yet, and
// leaves the rest to the next one where they are many.
//
// Processed means that the handler has returned. The law holds at every moment, and
// each end checks what it can see of it at every frame:
//
//	acked <= received <= sent <= granted
//
// The producer keeps what is sent and not acknowledged, and at most max_unacked of
// it: when that is reached, it pauses as if it had no credit.
//
// # Opening, and taking over
//
// Opens of one subscriber are ordered by (incarnation, session, attempt): the start
// of its node, the subscription, the Open. The producer compares an Open with the
// last one that it has seen of that subscriber; see [Judge].
//
//	not greater             refused as stale; nothing is touched
//	same session            take-over
//	greater, not known      what an older session holds is given back; a new begins
//	greater, known, but     refused as unknown-session; what an older session holds
//	the session is gone     is given back
//
// In a take-over the positions of the Open are checked (P's acked <= acked <=
// received <= sent, P's granted <= granted) and adopted, granted and acked
// together. The stream before is closed, Opened is sent, then everything from
// received+1 on, then new events.
//
// Frames of a replaced stream, and the notice that it broke, change nothing at
// either end: the [Producer.Stream] and [Consumer.Stream] that a reader was started
// with are compared with those of now.
//
// The consumer never asks again for an Ask that may be lost: its next Open says it.
// It may ask at any time, also behind an Open that is not answered.
//
// # Acknowledging
//
// An Ask carries what is processed. When there is nothing to ask, what is processed
// is said by an Ack as soon as nothing is left to process. What an Ask or a Cancel
// acknowledges counts before the rest of it.
//
// # Ending
//
// A producer ends a session with End, when everything is written. It goes on
// reading: Ask, Ack and Cancel that cross End are legal. The consumer processes up
// to End's last position, acknowledges, half-closes; the producer closes with OK and
// forgets the session, but not its triple. If the stream breaks before that, both
// still hold the session, and the next stream repeats what is left, End included.
//
// Cancel ends a session at the consumer's will. After drain, what was sent is
// processed as ever. After failed, the producer gives back at once what is neither
// acked nor done, and answers any later Open of the session with End. What of that a
// handler had and did not finish, the Cancel says too (tried): only that counts an
// attempt. Of a consumer that dies without a word the producer assumes that its handler
// had one batch, or everything where events were acknowledged out of order. The consumer
// repeats Cancel on every new stream until it has seen End; failed may follow drain,
// and End.
//
//	        Open                          End written
//	────────────────► attached ──────────────────────► ending
//	                  │      ▲                         │    │
//	     stream broke │      │ take-over   stream broke│    │ all acked,
//	                  ▼      │                         │    │ half-close
//	                  detached ◄───────────────────────┘    ▼
//	                      └── window over, or replaced ──► over
//
// # Signs of life
//
// On every stream that is open, idle or not, an end that has sent nothing for an
// interval sends a sign of life: the producer Idle, the consumer an Ack that is repeated
// (one that has failed, its Cancel). Opened says the interval: what Open says or what
// the producer wants, whichever is longer, and at most a minute; 10 s by default. An end
// that hears nothing for three intervals while it waits for a frame cuts the stream; a
// producer by "silent". The session goes on with the next one.
//
// End is the producer's last frame all the same. From there on the consumer has the
// word; it judges silence again when it has half-closed.
//
// A Cancel is answered by End, and End, once all is acknowledged, by the half-close,
// within 10 s each. Otherwise a consumer that drains turns to failed, and after that
// gives the session up; a producer cuts the stream, and keeps the session for its window.
//
// # Leaving
//
// A producer whose node is about to leave says Draining on every stream, also on one
// that takes a session over. The session goes on as ever, until End.
//
// # When a session is gone
//
// Both ends have a window in which a broken stream may be replaced; the consumer's
// is over first. When the producer's is over, it gives back what is un-acked and
// forgets the session. A consumer that is told "unknown-session" concludes, see
// [Consumer.Refused]:
//
//	End seen and all acked, or failed  it is completed
//	another epoch                      lost; what it has received is nobody else's:
//	                                   it processes that
//	the same epoch                     lost; what it has not acked was given back:
//	                                   it drops what is not started
package wire
