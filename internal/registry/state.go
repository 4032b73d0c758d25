package registry

import (
	"cmp"
	"maps"
	"slices"
)

// State is the newest catalog of every node. Its zero value is empty.
type State struct {
	catalogs map[string]Catalog // in normal form
}

// Put takes c, unless the state holds a catalog of that node that is as new or
// newer, and reports whether it took it.
func (s *State) Put(c Catalog) bool {
	c = c.own()
	if old, ok := s.catalogs[c.Node]; ok && c.compare(old) <= 0 {
		return false
	}
	if s.catalogs == nil {
		s.catalogs = map[string]Catalog{}
	}
	s.catalogs[c.Node] = c
	return true
}

// Merge puts every catalog of other into s, and reports whether that changed
// anything. It leaves other as it is. Seen as an operation on states it is
//
//   - idempotent: merging what was merged before changes nothing;
//   - commutative: s merged with other is other merged with s;
//   - associative: how merges are grouped does not matter.
//
// [State.Forget] is not part of this: what one state forgot comes back from
// another that did not.
func (s *State) Merge(other *State) bool {
	changed := false
	for _, c := range other.catalogs {
		if s.Put(c) {
			changed = true
		}
	}
	return changed
}

// Forget drops the catalog of a node that left, and reports whether there was one.
// News that is still on its way brings it back, so who is alive is not to be
// concluded from the state.
func (s *State) Forget(node string) bool {
	_, ok := s.catalogs[node]
	delete(s.catalogs, node)
	return ok
}

// Get returns the newest catalog of a node.
func (s *State) Get(node string) (Catalog, bool) {
	c, ok := s.catalogs[node]
	return c.clone(), ok
}

// Catalogs returns the newest catalog of every node, sorted by node.
func (s *State) Catalogs() []Catalog {
	var all []Catalog
	for _, node := range slices.Sorted(maps.Keys(s.catalogs)) {
		all = append(all, s.catalogs[node].clone())
	}
	return all
}

// Clone returns a state that shares nothing with s.
func (s *State) Clone() *State {
	var clone State
	clone.Merge(s)
	return &clone
}

// Equal reports whether both states hold the same.
func (s *State) Equal(other *State) bool {
	return maps.EqualFunc(s.catalogs, other.catalogs, func(c, d Catalog) bool { return c.compare(d) == 0 })
}

// Offer is one outlet of one node.
type Offer struct {
	Node string
	// Incarnation is that of the catalog.
	Incarnation uint64
	Outlet
}

// Providers returns who offers an outlet of that name, sorted by node. Outlets
// that have ended are among them.
func (s *State) Providers(outlet string) []Offer {
	var offers []Offer
	for node, c := range s.catalogs {
		i, ok := slices.BinarySearchFunc(c.Outlets, outlet, func(o Outlet, name string) int {
			return cmp.Compare(o.Name, name)
		})
		if ok {
			offers = append(offers, Offer{node, c.Incarnation, c.Outlets[i]})
		}
	}
	slices.SortFunc(offers, Offer.compare)
	return offers
}

// Outlets returns every outlet of every node, sorted by name, then by node.
func (s *State) Outlets() []Offer {
	var offers []Offer
	for node, c := range s.catalogs {
		for _, o := range c.Outlets {
			offers = append(offers, Offer{node, c.Incarnation, o})
		}
	}
	slices.SortFunc(offers, Offer.compare)
	return offers
}

func (o Offer) compare(p Offer) int {
	return cmp.Or(cmp.Compare(o.Name, p.Name), cmp.Compare(o.Node, p.Node))
}
