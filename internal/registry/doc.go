// Package registry knows which node offers which outlets.
//
// A [Catalog] is everything one node offers, and only that node writes it. A
// [State] is the newest catalog of every node; it grows with [State.Put] and
// [State.Merge], in whatever order news arrives.
//
// # Guarantees
//
// Merging is a maximum: per node, the greater (incarnation, version) stays. So it
// is idempotent, commutative and associative, and two states that have seen the
// same catalogs are equal, whatever the order, and however often they saw each.
// There is no clock in it and nothing is marked as deleted: an outlet that is
// withdrawn is absent from the next catalog, and the catalog of a node that died
// is hidden by whoever knows who is alive.
//
// An honest node never writes two catalogs of the same incarnation and version.
// Where one does all the same, the greater content stays, in an order that is the
// same everywhere: the laws hold then too.
//
// Listings are sorted. Slices that are put in or given out are copies: nothing is
// shared with the caller.
//
// Everything here is a plain value: no goroutine, no lock, no clock. A state has
// one owner at a time.
package registry
