// Package node puts stages on the network.
//
// A [Node] is one process. [Publish] offers an outlet of this process under the name
// of a port, [Outlet] is the outlet of that port wherever it is offered. Stages are
// connected as in one process; only where an outlet comes from changes:
//
//	n := node.New(node.Config{Name: "a", Cluster: "demo", Join: []string{"b.internal:7401"}})
//	node.Publish(n, Numbers, counter)
//	err := stage.Run(ctx, n, counter)
//
// # Guarantees
//
// A subscription is a session of package wire over gRPC streams. While both processes
// live, a broken connection loses nothing, repeats nothing and changes no order,
// as long as it comes back within the resume window (30 s). When a consumer is gone
// for longer, what it had not processed goes to another subscriber, marked. Its place is
// kept for max(1.5 w, w + 35 s) of its window w, so that it is the first to give up.
// When a producer is gone for longer, the subscription goes on with the others, and
// ends as lost when there are none, by the name of the node.
//
// Each end gives a sign of life after 10 s without a frame. A stream that carries
// nothing for 30 s is cut and replaced, over another connection, also where the network
// says nothing.
//
// Nothing waits for another subscription: a stage that handles a batch, or a peer
// that does not read, holds up its own subscription and nothing else. What a node
// keeps for a subscriber is bounded by what that has asked for, by MaxUnacked and by
// MaxUnackedBytes; for all of them by MaxBytes. Who reaches one of these is paused.
// Who asks for more than MaxDemand, or has MaxSubscriptions, is refused by name.
//
// A peer that breaks the protocol ends its own subscription, by the name of the rule.
// An event that a codec cannot write, or panics at, is discarded by name; one that it
// cannot read ends the subscription. A panic of a handler fails its stage. The node
// lives on.
//
// A node that stops says so first: it takes no new subscriber, hands over what it
// holds until the drain timeout, and leaves. Its consumers go to other publishers.
//
// # Several publishers
//
// A subscription follows all nodes that offer its outlet. It has completed when those
// have that it followed, or as many as [Expect] says. [One] follows one of them, and
// another when that leaves or is lost. See [Outlet].
//
// # Finding each other
//
// Nodes gossip a digest of a few dozen bytes (memberlist, SWIM): where they are
// reached, and the version of their catalog. The catalog itself, who offers which
// outlets, is fetched over gRPC. Gossip is a hint where to look and never ends a
// subscription; a node that refuses is believed before gossip is. A subscription to
// an outlet that nobody offers waits for it. Nodes try the addresses in Join for as
// long as they run.
//
// # What a node listens to
//
// One gRPC server for subscriptions, catalogs and operators, and gossip. Both listen
// on loopback unless they are told otherwise.
//
// With [Config].TLS, both ends of every connection show a certificate of one CA. Nodes
// are dialed where gossip says they are; who they are, certificates say. With
// [Config].Authorize, each node decides by identity who may subscribe to its outlets,
// tap them and administer it, and who may publish what it subscribes to: with the first
// rule, what none allows is forbidden, by [wire.RuleForbidden]. The node that an operator
// asks asks the others by its own identity, so it needs the right as well.
// [Config].Keyring encrypts gossip. Who has another key does not get in. All these
// files are read again every few seconds; rules are not.
//
// Without TLS the server is neither encrypted nor authenticated: do not let it be
// reached by whom you do not trust. Operators on its own machine are answered, and others
// with [Config].AdminAnywhere.
package node
