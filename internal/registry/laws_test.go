package registry

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Few values, so that catalogs of the same node, incarnation and version with
// different content are common.
var (
	outlets = rapid.Custom(func(t *rapid.T) Outlet {
		return Outlet{
			Name:       rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
			EventType:  rapid.SampledFrom([]string{"", "e"}).Draw(t, "event type"),
			Codec:      rapid.SampledFrom([]string{"", "json"}).Draw(t, "codec"),
			Dispatcher: rapid.SampledFrom([]string{"demand", "partition"}).Draw(t, "dispatcher"),
			Partitions: rapid.IntRange(0, 1).Draw(t, "partitions"),
			Ended:      rapid.Bool().Draw(t, "ended"),
		}
	})
	catalogs = rapid.Custom(func(t *rapid.T) Catalog {
		return Catalog{
			Node:        rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node"),
			Incarnation: rapid.Uint64Range(0, 1).Draw(t, "incarnation"),
			Version:     rapid.Uint64Range(0, 1).Draw(t, "version"),
			Outlets:     rapid.SliceOfN(outlets, 0, 3).Draw(t, "outlets"),
		}
	})
	states = rapid.Custom(func(t *rapid.T) *State {
		return state(rapid.SliceOfN(catalogs, 0, 4).Draw(t, "catalogs")...)
	})
)

func merged(a, b *State) *State {
	m := a.Clone()
	m.Merge(b)
	return m
}

func laws(t require.TestingT, a, b, c *State) {
	same := func(want, got *State, law string) {
		require.Equal(t, want.Catalogs(), got.Catalogs(), law)
		require.True(t, want.Equal(got), law)
	}
	was := b.Catalogs()

	same(a, merged(a, a), "idempotent")
	same(merged(a, b), merged(merged(a, b), b), "idempotent, later")
	same(merged(a, b), merged(b, a), "commutative")
	same(merged(merged(a, b), c), merged(a, merged(b, c)), "associative")
	same(a, merged(a, new(State)), "the empty state changes nothing")
	require.Equal(t, !merged(a, b).Equal(a), a.Clone().Merge(b), "what Merge reports")
	require.Equal(t, was, b.Catalogs(), "what is merged stays as it was")
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		laws(t, states.Draw(t, "a"), states.Draw(t, "b"), states.Draw(t, "c"))
	})
}

// This is what the laws are for: everybody who hears the same ends up with the
// same, in the order and grouping in which it arrives.
func TestOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		news := rapid.SliceOfN(catalogs, 0, 8).Draw(t, "news")
		heard := slices.Clone(news)
		if len(news) > 0 {
			heard = append(heard, rapid.SliceOfN(rapid.SampledFrom(news), 0, 8).Draw(t, "heard again")...)
		}
		heard = rapid.Permutation(heard).Draw(t, "order")
		split := rapid.IntRange(0, len(heard)).Draw(t, "split")

		direct, relayed := state(news...), state(heard[split:]...)
		relayed.Merge(state(heard[:split]...))
		require.Equal(t, direct.Catalogs(), relayed.Catalogs())
		require.Equal(t, direct.Outlets(), relayed.Outlets())
		for _, c := range news {
			kept, ok := direct.Get(c.Node)
			require.True(t, ok)
			require.GreaterOrEqual(t, kept.compare(c.own()), 0, "something newer was heard")
		}
	})
}

// The input is three lists of catalogs. A catalog is one byte, with the number of
// its outlets in the low bits, and one byte for each outlet.
func FuzzMergeLaws(f *testing.F) {
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add([]byte{0x01, 0x00}, []byte{0x01, 0x01}, []byte{0x01, 0x02})
	f.Add([]byte{0x03, 0x00, 0x04, 0x01}, []byte{0x42, 0x80, 0xff}, []byte{0x10, 0x30, 0x50})
	f.Add([]byte{0x02, 0x07, 0x03, 0x12, 0x05}, []byte{0x02, 0x03, 0x07, 0x22, 0x05}, []byte{0x02, 0x0b, 0x03})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		// More says nothing more.
		const most = 300
		laws(t, read(a[:min(len(a), most)]), read(b[:min(len(b), most)]), read(c[:min(len(c), most)]))
	})
}

func read(data []byte) *State {
	var s State
	for len(data) > 0 {
		head := data[0]
		data = data[1:]
		c := Catalog{
			Node:        string('a' + rune(head>>6&1)),
			Incarnation: uint64(head >> 4 & 1),
			Version:     uint64(head >> 5 & 1),
		}
		n := min(int(head&0x0f), len(data))
		for _, b := range data[:n] {
			c.Outlets = append(c.Outlets, Outlet{
				Name:       string('x' + rune(b&1)),
				EventType:  string('e' + rune(b>>1&1)),
				Codec:      string('c' + rune(b>>2&1)),
				Dispatcher: string('d' + rune(b>>3&1)),
				Partitions: int(b >> 4 & 7),
				Ended:      b>>7 == 1,
			})
		}
		data = data[n:]
		s.Put(c)
	}
	return &s
}
