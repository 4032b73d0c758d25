// Package mtls is mutual TLS from three files: a certificate, its key, and the CA
// that signs those of everybody else.
//
// # Who is who
//
// Both ends of a connection show a certificate that the CA has signed, and both
// verify it. Addresses are not verified: nodes are dialed by the IP that gossip says,
// and gossip says where somebody is, not who. Who it is, its identity, is in its
// certificate: the first URI (such as spiffe://example.org/orders), or else the first
// DNS name, or else the common name of the subject. See [Identity].
//
// # Guarantees
//
// TLS 1.3 and nothing older. No session is resumed, so that every connection is
// verified by what is on disk when it is made. A certificate without any name is
// refused, whoever has signed it.
//
// A [Keeper] reads the files again when it is told to, and compares their content, so
// that it does not matter how they are replaced: by a write, a rename, or a link that
// leads elsewhere. What cannot be used changes nothing. Connections that are there
// stay as they are.
package mtls
