// Package group decides whom a subscription to an outlet on the network follows.
//
// Several nodes may offer an outlet of one name: its publishers. A subscription is a
// [Group] with one member for each publisher that it follows, or with one member that
// is replaced when it goes. The Group is told what discovery shows and how its
// members fare; [Group.Next] answers whom to join, whom to leave, and whether the
// subscription is over. It does nothing itself, has no clock and no lock: it has one
// owner at a time, who passes the time in.
//
// # When it is over
//
//   - completed: somebody has completed, nobody is followed any more, and as many
//     publishers as were expected have completed. Who has left otherwise does not count;
//   - as the last member went, when nobody is left: after the window, since a
//     replacement may come, or as soon as it is certain that the publisher is there,
//     stays, and has nothing more to send. So a publisher that refuses for good ends what
//     has no other; where others were followed, it counts for nothing.
//
// A group that never had a member, or that waits for publishers it expects, waits
// without a limit. Discovery ends no member that has been accepted once: the streams
// say who is gone.
package group
