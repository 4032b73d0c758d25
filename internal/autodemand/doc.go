// Package autodemand decides how much demand a consumer needs.
//
// A window that is too small lets a consumer wait for the network, and one that is too
// large piles up at a consumer that is slow what others could handle. A [Sizer] is told
// what is asked for, what arrives and what is processed, and goes by three things:
//
//   - A consumer that is the brake is never idle, and behind most batches more than half of
//     its window waits. Then the window moves halfway to three times what is processed in a
//     round trip.
//   - A consumer that is idle for more than an eighth of its time may be so because of the
//     window, or because its producer has no more. Nobody at this end can see which: so
//     twice as much is tried, and taken back where that has not helped.
//   - The sizes of events, where they are known: what the window holds is bounded in bytes.
//
// The round trip is the time from an ask to the first event beyond all that was asked for
// before it, the shortest of the last few: a producer that has nothing makes it longer. It needs
// nothing on the wire.
//
// A Sizer is a plain value with one owner at a time. It has no clock: it is told the time.
package autodemand
