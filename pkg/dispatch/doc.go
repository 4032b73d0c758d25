// Package dispatch decides which subscriber gets which event.
//
// A stage keeps the events that wait in one or more lanes, and asks its
// dispatcher after every change who gets the next of them. There are three:
//
//   - [Demand], the default: each event goes to one subscriber, the one with the
//     most credit.
//   - [Broadcast]: each event goes to every subscriber, at the pace of the slowest.
//   - [Partition]: a function gives each event its partition, each partition has
//     at most one subscriber, and what a partition has not asked for waits in a
//     lane of its own.
//
// # Guarantees
//
// A dispatcher is a plain value that returns what to do and does nothing itself:
// no goroutine, lock or clock. It has one owner at a time. It books what it gives
// away, so that nobody is ever given more than it asked for, and within a lane it
// keeps the order.
//
// A dispatcher belongs to one stage; a stage that is made anew gets a new one. A
// user's own dispatcher implements [Dispatcher], and package dispatchtest tests it.
package dispatch
