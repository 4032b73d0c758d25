package registry

import (
	"cmp"
	"slices"
)

// Catalog is everything one node offers; only that node writes it.
type Catalog struct {
	// Node is the logical name of the node.
	Node string
	// Incarnation grows with every start of the node.
	Incarnation uint64
	// Version grows with every change within an incarnation.
	Version uint64
	// Outlets are sorted by name where a State gives them out.
	Outlets []Outlet
}

// Outlet is one outlet in a catalog.
type Outlet struct {
	Name string
	// EventType and Codec say what one event is, and how it is written.
	EventType, Codec string
	// Dispatcher is demand, broadcast or partition.
	Dispatcher string
	// Partitions is their number, where there are any.
	Partitions int
	// Ended says that it came to its end and will not send again.
	Ended bool
}

// own returns c in its one normal form, and with slices of its own: outlets are
// sorted, and each name is there once, with its greatest content.
func (c Catalog) own() Catalog {
	c.Outlets = slices.SortedFunc(slices.Values(c.Outlets), Outlet.compare)
	kept := c.Outlets[:0]
	for _, o := range c.Outlets {
		if n := len(kept); n > 0 && kept[n-1].Name == o.Name {
			kept[n-1] = o
			continue
		}
		kept = append(kept, o)
	}
	c.Outlets = kept
	return c
}

// clone returns c with slices of its own.
func (c Catalog) clone() Catalog {
	c.Outlets = slices.Clone(c.Outlets)
	return c
}

// compare is a total order on the catalogs of one node in normal form: newer is
// greater, and the content decides where neither is newer.
func (c Catalog) compare(d Catalog) int {
	return cmp.Or(
		cmp.Compare(c.Incarnation, d.Incarnation),
		cmp.Compare(c.Version, d.Version),
		slices.CompareFunc(c.Outlets, d.Outlets, Outlet.compare),
	)
}

// compare is a total order on outlets, by name first. Every field takes part: two
// outlets are equal in it only if they are the same.
func (o Outlet) compare(p Outlet) int {
	return cmp.Or(
		cmp.Compare(o.Name, p.Name),
		compareBool(o.Ended, p.Ended),
		cmp.Compare(o.EventType, p.EventType),
		cmp.Compare(o.Codec, p.Codec),
		cmp.Compare(o.Dispatcher, p.Dispatcher),
		cmp.Compare(o.Partitions, p.Partitions),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
