package registry

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
)

// Candidate is a node that is alive and takes subscriptions. Zone is empty where
// it is not known.
type Candidate struct{ Node, Zone string }

// Pick returns the publisher that a subscriber goes to: the first of
// [State.Rank].
func (s *State) Pick(outlet, subscriber string, alive []Candidate, zone string) (Offer, bool) {
	ranked := s.Rank(outlet, subscriber, alive, zone)
	if len(ranked) == 0 {
		return Offer{}, false
	}
	return ranked[0], true
}

// Rank returns those of the candidates that offer the outlet, in the order in
// which a subscriber in a zone prefers them:
//
//   - outlets that still send before those that have ended;
//   - its own zone before others, where it has one;
//   - then by highest random weight, also called rendezvous hashing (Thaler and
//     Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM
//     Transactions on Networking, 1998). Subscribers spread evenly over the
//     candidates, and one that comes or goes moves only the subscribers that
//     prefer it.
//
// The order depends on nothing but the arguments and the state: it is the same on
// every node, after every restart, and however alive is sorted.
func (s *State) Rank(outlet, subscriber string, alive []Candidate, zone string) []Offer {
	type ranked struct {
		offer  Offer
		near   bool
		weight uint64
	}
	zones := make(map[string]string, len(alive))
	for _, c := range alive {
		zones[c.Node] = max(zones[c.Node], c.Zone)
	}
	var all []ranked
	for _, o := range s.Providers(outlet) {
		if z, ok := zones[o.Node]; ok {
			all = append(all, ranked{o, zone != "" && z == zone, weight(outlet, subscriber, o.Node)})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(
			compareBool(a.offer.Ended, b.offer.Ended),
			compareBool(b.near, a.near),
			cmp.Compare(b.weight, a.weight),
			cmp.Compare(a.offer.Node, b.offer.Node),
		)
	})
	var offers []Offer
	for _, r := range all {
		offers = append(offers, r.offer)
	}
	return offers
}

// weight is what a node weighs for a subscriber of an outlet: FNV-1a over the
// three names, each after its length so that no two triples write the same bytes.
// FNV alone leaves names that differ at their end close together; the finalizer of
// splitmix64 (Steele, Lea and Flood, 2014) spreads them over all bits.
func weight(outlet, subscriber, node string) uint64 {
	h := fnv.New64a()
	for _, name := range []string{outlet, subscriber, node} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(name)))
		h.Write(length[:])
		io.WriteString(h, name)
	}
	x := h.Sum64()
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return x
}
