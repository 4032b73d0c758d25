package registry

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func state(catalogs ...Catalog) *State {
	var s State
	for _, c := range catalogs {
		s.Put(c)
	}
	return &s
}

func catalog(node string, incarnation, version uint64, outlets ...string) Catalog {
	c := Catalog{Node: node, Incarnation: incarnation, Version: version}
	for _, name := range outlets {
		c.Outlets = append(c.Outlets, Outlet{Name: name, Dispatcher: "demand"})
	}
	return c
}

func TestPutKeepsTheNewer(t *testing.T) {
	put := func(name string, took bool, old, next Catalog) {
		t.Run(name, func(t *testing.T) {
			s := state(old)
			require.Equal(t, took, s.Put(next))
			got, ok := s.Get("a")
			require.True(t, ok)
			if took {
				require.Equal(t, next.own(), got)
			} else {
				require.Equal(t, old.own(), got)
			}
		})
	}
	put("later version", true, catalog("a", 1, 1, "x"), catalog("a", 1, 2, "y"))
	put("earlier version", false, catalog("a", 1, 2, "x"), catalog("a", 1, 1, "y"))
	put("a restart counts more than any version", true, catalog("a", 1, 99, "x"), catalog("a", 2, 0, "y"))
	put("late news of the former self", false, catalog("a", 2, 0, "x"), catalog("a", 1, 99, "y"))
	put("the same again", false, catalog("a", 1, 1, "x"), catalog("a", 1, 1, "x"))
	put("the same in another order", false, catalog("a", 1, 1, "x", "y"), catalog("a", 1, 1, "y", "x"))
	put("withdrawn", true, catalog("a", 1, 1, "x"), catalog("a", 1, 2))
	put("a tie goes to the greater content", true, catalog("a", 1, 1, "x"), catalog("a", 1, 1, "y"))
	put("a tie goes to the greater content, the other way round", false, catalog("a", 1, 1, "y"), catalog("a", 1, 1, "x"))
}

// Which of two catalogs stays may not depend on which came first, whatever they
// differ in.
func TestTies(t *testing.T) {
	base := Outlet{Name: "x", EventType: "e", Codec: "json", Dispatcher: "demand", Partitions: 1}
	for name, change := range map[string]func(*Outlet){
		"name":       func(o *Outlet) { o.Name = "y" },
		"event type": func(o *Outlet) { o.EventType = "f" },
		"codec":      func(o *Outlet) { o.Codec = "proto" },
		"dispatcher": func(o *Outlet) { o.Dispatcher = "partition" },
		"partitions": func(o *Outlet) { o.Partitions = 2 },
		"ended":      func(o *Outlet) { o.Ended = true },
	} {
		other := base
		change(&other)
		a, b := Catalog{Node: "a", Outlets: []Outlet{base}}, Catalog{Node: "a", Outlets: []Outlet{other}}
		require.Equal(t, []Catalog{b}, state(a, b).Catalogs(), name)
		require.Equal(t, []Catalog{b}, state(b, a).Catalogs(), name)
	}
}

func TestOneNameIsOfferedOnce(t *testing.T) {
	c := Catalog{Node: "a", Outlets: []Outlet{
		{Name: "x", Codec: "json"}, {Name: "w"}, {Name: "x", Codec: "proto"}, {Name: "x", Codec: "avro"},
	}}
	got, _ := state(c).Get("a")
	require.Equal(t, []Outlet{{Name: "w"}, {Name: "x", Codec: "proto"}}, got.Outlets)
}

func TestListings(t *testing.T) {
	s := state(catalog("b", 1, 1, "y", "x"), catalog("c", 1, 1), catalog("a", 1, 1, "z", "x"))
	offer := func(node, outlet string) Offer { return Offer{node, 1, Outlet{Name: outlet, Dispatcher: "demand"}} }

	require.Equal(t, []Offer{offer("a", "x"), offer("b", "x")}, s.Providers("x"))
	require.Empty(t, s.Providers("nobody's"))
	require.Equal(t, []Offer{offer("a", "x"), offer("b", "x"), offer("b", "y"), offer("a", "z")}, s.Outlets())
	require.Equal(t, []Catalog{catalog("a", 1, 1, "x", "z"), catalog("b", 1, 1, "x", "y"), {Node: "c", Incarnation: 1, Version: 1}},
		s.Catalogs())
}

func TestForget(t *testing.T) {
	s := state(catalog("a", 1, 2, "x"), catalog("b", 1, 1, "x"))
	require.True(t, s.Forget("a"))
	require.False(t, s.Forget("a"))
	_, ok := s.Get("a")
	require.False(t, ok)
	require.Len(t, s.Providers("x"), 1)
	require.True(t, s.Put(catalog("a", 1, 1, "x")), "what is forgotten has no version")
}

func TestTheZeroStateIsEmpty(t *testing.T) {
	var s State
	require.False(t, s.Forget("a"))
	require.False(t, s.Merge(new(State)))
	require.Empty(t, s.Outlets())
	require.Empty(t, s.Catalogs())
	require.True(t, s.Equal(new(State)))
	_, ok := s.Pick("x", "sub", []Candidate{{Node: "a"}}, "")
	require.False(t, ok)
}

func TestNothingIsShared(t *testing.T) {
	c := catalog("a", 1, 1, "x")
	s := state(c)
	clone := s.Clone()
	want := catalog("a", 1, 1, "x")

	c.Outlets[0].Name = "put in"
	got, _ := s.Get("a")
	require.Equal(t, want, got)

	got.Outlets[0].Name = "given out"
	s.Catalogs()[0].Outlets[0].Name = "given out"
	s.Providers("x")[0].Name = "given out"
	got, _ = s.Get("a")
	require.Equal(t, want, got)

	s.Put(catalog("a", 1, 2, "y"))
	got, _ = clone.Get("a")
	require.Equal(t, want, got)

	var merged State
	merged.Merge(clone)
	merged.catalogs["a"].Outlets[0].Name = "merged"
	got, _ = clone.Get("a")
	require.Equal(t, want, got)
}
