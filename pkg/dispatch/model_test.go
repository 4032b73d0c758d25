package dispatch_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what any dispatcher has to be true to, kept in the plainest way.
type model struct {
	*rapid.T
	kind    string
	d       dispatch.Dispatcher[int]
	credit  map[dispatch.ID]int64
	lane    map[dispatch.ID]int // of a partition's subscriber
	waiting [][]int
	lastID  dispatch.ID
	emitted int
	got     map[dispatch.ID][]int
	given   []int
}

// check runs random steps against the model of one kind of dispatcher.
func check(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"demand", "broadcast", "partition"}).Draw(t, "kind")
	m := &model{T: t, kind: kind, d: kinds[kind](3), credit: map[dispatch.ID]int64{},
		lane: map[dispatch.ID]int{}, got: map[dispatch.ID][]int{}}
	m.waiting = make([][]int, m.d.Lanes())
	t.Repeat(map[string]func(*rapid.T){
		"": m.invariants, "join": m.join, "ask": m.ask, "revoke": m.revoke, "leave": m.leave, "emit": m.emit,
	})
}

// TestModel covers DDX-02, DDX-04, DDX-05, DDX-12, DDX-16, DBX-01, DBX-02, DBX-06,
// DPX-04, DPX-05, DPX-07, DPX-22 and BAT-10: nobody is given more than it asked for,
// nothing is lost or given twice, a lane keeps its order, the right one is served,
// and demand is neither made up nor lost.
func TestModel(t *testing.T) { rapid.Check(t, check) }

func FuzzModel(f *testing.F) {
	f.Add([]byte("join ask emit leave"))
	f.Add(slices.Repeat([]byte{0x01, 0xf0, 0x03, 0x80, 0x7f}, 200))
	f.Fuzz(rapid.MakeFuzz(check))
}

func (m *model) any() dispatch.ID {
	return rapid.SampledFrom(append(slices.Sorted(maps.Keys(m.credit)), 0, 99)).Draw(m.T, "who")
}

func (m *model) join(t *rapid.T) {
	m.lastID++
	terms := dispatch.Terms{Partition: dispatch.NoPartition}
	free := true
	if m.kind == "partition" {
		terms.Partition = rapid.IntRange(-1, 3).Draw(t, "partition")
		free = terms.Partition >= 0 && terms.Partition < 3 &&
			!slices.Contains(slices.Collect(maps.Values(m.lane)), terms.Partition)
	}
	err := m.d.Join(m.lastID, terms)
	require.Equal(t, free, err == nil, "%v", err)
	if free {
		m.credit[m.lastID] = 0
		m.lane[m.lastID] = max(terms.Partition, 0)
	}
}

func (m *model) ask(t *rapid.T) {
	id, n := m.any(), rapid.Int64Range(1, 8).Draw(t, "n")
	m.d.Ask(id, n)
	if _, ok := m.credit[id]; ok {
		m.credit[id] += n
	}
	m.settle()
}

func (m *model) revoke(*rapid.T) {
	id := m.any()
	require.Equal(m, m.credit[id], m.d.Revoke(id))
	if _, ok := m.credit[id]; ok {
		m.credit[id] = 0
	}
	m.settle()
}

func (m *model) leave(*rapid.T) {
	id := m.any()
	m.d.Leave(id)
	delete(m.credit, id)
	delete(m.lane, id)
	m.settle()
}

func (m *model) emit(t *rapid.T) {
	for range rapid.IntRange(0, 9).Draw(t, "n") {
		l := m.d.Lane(m.emitted)
		m.waiting[l] = append(m.waiting[l], m.emitted)
		m.emitted++
	}
	m.settle()
}

func (m *model) settle() {
	var served []dispatch.ID
	for {
		d, ok := m.d.Next(func(l int) int { return len(m.waiting[l]) })
		if !ok {
			break
		}
		m.rightOnes(d)
		events := m.waiting[d.Lane][:d.N]
		for _, id := range d.To {
			m.credit[id] -= int64(d.N)
			require.GreaterOrEqual(m, m.credit[id], int64(0), "%d was given more than it asked for", id)
			m.got[id] = append(m.got[id], events...)
			require.NotContains(m, served, id, "a second delivery in one round")
			served = append(served, id)
		}
		m.given = append(m.given, events...)
		m.waiting[d.Lane] = m.waiting[d.Lane][d.N:]
	}
}

// rightOnes checks that a delivery goes to whom it belongs.
func (m *model) rightOnes(d dispatch.Delivery) {
	require.Positive(m, d.N)
	require.LessOrEqual(m, d.N, len(m.waiting[d.Lane]))
	switch m.kind {
	case "broadcast":
		require.ElementsMatch(m, slices.Collect(maps.Keys(m.credit)), d.To)
	case "partition":
		require.Len(m, d.To, 1)
		require.Equal(m, m.lane[d.To[0]], d.Lane)
	default:
		require.Len(m, d.To, 1)
		require.Equal(m, slices.Max(slices.Collect(maps.Values(m.credit))), m.credit[d.To[0]])
	}
}

func (m *model) demand() (n int64) {
	for i, c := range slices.Collect(maps.Values(m.credit)) {
		if m.kind != "broadcast" {
			n += c
		} else if i == 0 || c < n {
			n = c
		}
	}
	return n
}

func (m *model) invariants(t *rapid.T) {
	require.Equal(t, m.demand(), m.d.Demand())
	waits := 0
	for l, events := range m.waiting {
		waits += len(events)
		require.True(t, slices.IsSorted(events))
		for id, c := range m.credit {
			if m.kind == "partition" && m.lane[id] == l {
				require.True(t, c == 0 || len(events) == 0, "partition %d waits for nothing", l)
			}
		}
	}
	require.True(t, m.kind == "partition" || waits == 0 || m.demand() == 0, "events wait that are asked for")
	require.Len(t, m.given, m.emitted-waits)
	for id, got := range m.got {
		require.True(t, slices.IsSorted(got), "%d got %v", id, got)
	}
	sorted := slices.Sorted(slices.Values(m.given))
	require.Len(t, slices.Compact(sorted), len(m.given), "given twice")
}
