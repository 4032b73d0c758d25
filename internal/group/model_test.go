package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is publishers that come, go and fare as they like, and what is to be true of
// every group that follows them. It has two groups that are told the same.
type world struct {
	*rapid.T
	terms   Terms
	groups  [2]*Group
	now     time.Time
	seen    map[ID]*Publisher
	starts  map[string]uint64 // of nodes
	follows map[ID]*followed
	// completed are the nodes that have, and so brought what they had.
	completed map[string]bool
	finished  map[ID]bool // ended otherwise than lost or left: not to be joined again
	alone     time.Time   // since when nobody is followed whose stream is whole
	lastEnd   time.Time
	leaving   bool
	over      *Departure
}

// followed is a member as those know it who run it.
type followed struct {
	accepted, broken, unready, left, drains bool
}

var nodes = []string{"a", "b", "c"}

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, now: time.Unix(1000, 0), seen: map[ID]*Publisher{}, starts: map[string]uint64{},
		follows: map[ID]*followed{}, completed: map[string]bool{}, finished: map[ID]bool{},
	}
	w.terms = Terms{
		One: rapid.Bool().Draw(t, "one"), Expect: rapid.IntRange(0, 3).Draw(t, "expect"),
		Window: 30 * time.Second, Settle: time.Second, Patience: 2 * time.Second, Pause: time.Second,
	}
	for i := range w.groups {
		w.groups[i] = New(w.terms)
	}
	return w
}

func (w *world) tell(news func(g *Group)) {
	for _, g := range w.groups {
		news(g)
	}
}

// see tells what discovery shows, in any order of preference.
func (w *world) see() {
	var all []Publisher
	for _, id := range w.sorted(maps.Keys(w.seen)) {
		all = append(all, *w.seen[id])
	}
	all = rapid.Permutation(all).Draw(w.T, "preference")
	w.tell(func(g *Group) { g.See(all) })
	for id := range w.finished {
		if w.seen[id] == nil {
			delete(w.finished, id) // that is forgotten, and it may say once more how it ended
		}
	}
}

func (w *world) sorted(ids func(func(ID) bool)) []ID {
	return slices.SortedFunc(ids, func(x, y ID) int {
		return slices.Compare([]string{x.Node, fmt.Sprint(x.Incarnation)}, []string{y.Node, fmt.Sprint(y.Incarnation)})
	})
}

// member draws a member for which ok, or skips the step.
func (w *world) member(ok func(*followed) bool) (ID, *followed) {
	var some []ID
	for _, id := range w.sorted(maps.Keys(w.follows)) {
		if ok(w.follows[id]) {
			some = append(some, id)
		}
	}
	if len(some) == 0 {
		w.Skip("there is none")
	}
	id := rapid.SampledFrom(some).Draw(w.T, "member")
	return id, w.follows[id]
}

func (w *world) comes(t *rapid.T) {
	node := rapid.SampledFrom(nodes).Draw(t, "node")
	if w.starts[node]++; w.starts[node] > 4 {
		t.Skip("often enough")
	}
	id := ID{node, w.starts[node]}
	w.seen[id] = &Publisher{ID: id}
	w.see()
}

func (w *world) publisher() *Publisher {
	if len(w.seen) == 0 {
		w.Skip("there is none")
	}
	return w.seen[rapid.SampledFrom(w.sorted(maps.Keys(w.seen))).Draw(w.T, "publisher")]
}

func (w *world) goes(*rapid.T)   { delete(w.seen, w.publisher().ID); w.see() }
func (w *world) drains(*rapid.T) { w.publisher().Draining = true; w.see() }
func (w *world) retires(*rapid.T) {
	w.publisher().Ended = true
	w.see()
}

func (w *world) opens(*rapid.T) {
	id, m := w.member(func(m *followed) bool { return !m.accepted || m.broken })
	m.accepted, m.broken, m.unready = true, false, false
	w.tell(func(g *Group) { g.Opened(id) })
}

func (w *world) tires(*rapid.T) {
	id, m := w.member(func(m *followed) bool { return !m.accepted })
	m.unready = true
	w.tell(func(g *Group) { g.Unready(id) })
}

func (w *world) breaks(*rapid.T) {
	id, m := w.member(func(m *followed) bool { return m.accepted && !m.broken })
	m.broken = true
	w.lone()
	w.tell(func(g *Group) { g.Broken(w.now, id) })
}

func (w *world) says(*rapid.T) {
	id, m := w.member(func(m *followed) bool { return m.accepted })
	m.drains = true
	w.tell(func(g *Group) { g.Draining(id) })
}

func (w *world) ends(t *rapid.T) {
	id, _ := w.member(func(*followed) bool { return true })
	w.end(id, How(rapid.IntRange(int(Completed), int(Lost)).Draw(t, "how")))
}

func (w *world) end(id ID, how How) {
	m := w.follows[id]
	delete(w.follows, id)
	if !m.left && (how != Refused || m.accepted || w.lastEnd.IsZero()) {
		w.lastEnd = w.now // who was never followed changes nothing, nor who was left
	}
	if m.accepted && !m.broken {
		w.lone()
	}
	if !m.left {
		w.finished[id] = how != Lost && w.seen[id] != nil
		if how == Completed {
			w.completed[id.Node] = true
		}
	}
	w.tell(func(g *Group) { g.Ended(w.now, Departure{ID: id, How: how}) })
}

func (w *world) lone() {
	for _, m := range w.follows {
		if m.accepted && !m.broken {
			return
		}
	}
	w.alone = w.now
}

func (w *world) waits(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{100, 1000, 2000, 10_000, 30_000}).Draw(t, "ms")) * time.Millisecond)
}

func (w *world) leaves(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		t.Skip("not yet")
	}
	w.leaving = true
	w.tell((*Group).Leave)
}

// next does what the groups say, and holds it to what is promised.
func (w *world) next(*rapid.T) {
	step := w.groups[0].Next(w.now)
	require.Equal(w, step, w.groups[1].Next(w.now), "the same news, the same answer")
	if w.over != nil {
		require.Zero(w, step, "it is over")
		return
	}
	if !step.At.IsZero() {
		require.True(w, step.At.After(w.now), "to ask again at once is no answer")
	}
	for _, id := range step.Leave {
		require.False(w, w.follows[id].left, "%v is left once", id)
		w.follows[id].left = true
	}
	for _, id := range step.Drop {
		require.True(w, w.follows[id].broken && w.replaced(id), "%v has a later start", id)
	}
	for _, id := range step.Join {
		require.False(w, w.leaving)
		require.Nil(w, w.follows[id], "%v is followed once", id)
		require.True(w, w.seen[id] != nil && !w.seen[id].Draining && !w.replaced(id) && !w.finished[id], "%v may be joined", id)
		w.follows[id] = &followed{}
	}
	switch {
	case w.leaving:
	case w.terms.One:
		w.single(step)
	default:
		require.Empty(w, slices.DeleteFunc(slices.Clone(step.Leave), func(id ID) bool { return w.follows[id].unready }), "nobody is left who can be followed")
	}
	if step.Over != nil {
		w.ended(step.Over)
	}
}

// single: at most one is followed that there is no reason to leave. Others may be on the
// way to be accepted.
func (w *world) single(step Step) {
	require.LessOrEqual(w, len(step.Join), 1)
	var kept []ID
	for id, m := range w.follows {
		p := w.seen[id]
		leaves := m.drains || p != nil && p.Draining || w.replaced(id)
		if m.accepted && !m.broken && !m.left && !leaves {
			kept = append(kept, id)
		}
	}
	require.LessOrEqual(w, len(kept), 1, "%v are followed", kept)
}

// ended: it is not over while somebody is followed or expected.
func (w *world) ended(o *Departure) {
	w.over = o
	if w.leaving {
		require.Empty(w, w.follows)
		require.Equal(w, Cancelled, o.How)
		return
	}
	joining := 0
	for id, m := range w.follows {
		require.False(w, m.accepted, "%v is followed", id)
		if !m.left {
			joining++
		}
	}
	switch {
	case o.How == Completed:
		require.GreaterOrEqual(w, len(w.completed), max(w.terms.Expect, 1), "as many as are expected")
		require.Zero(w, joining)
	case w.patient():
	case w.terms.Expect > 0:
		require.Equal(w, Refused, o.How, "others are expected")
		require.Empty(w, w.completed)
		fallthrough
	default:
		require.Zero(w, joining)
		require.Empty(w, w.completed)
		require.False(w, w.now.Before(w.lastEnd.Add(w.terms.Settle)), "others may be found")
	}
}

// patient: nobody was followed for the whole window.
func (w *world) patient() bool {
	return !w.alone.IsZero() && !w.now.Before(w.alone.Add(w.terms.Window))
}

func (w *world) replaced(id ID) bool {
	for other := range w.seen {
		if other.Node == id.Node && other.Incarnation > id.Incarnation {
			return true
		}
	}
	return false
}

// comesToItsEnd: from everywhere, when all complete that there are and that are expected,
// the group is completed, unless its window was over before.
func (w *world) comesToItsEnd() {
	if w.over != nil {
		return
	}
	w.seen = map[ID]*Publisher{}
	for _, n := range nodes {
		w.starts[n]++
		id := ID{n, w.starts[n]}
		w.seen[id] = &Publisher{ID: id}
	}
	w.see()
	for range 20 {
		for _, id := range w.sorted(maps.Keys(w.follows)) {
			how := Completed
			switch {
			case w.leaving || w.follows[id].left:
				how = Cancelled
			case w.seen[id] == nil:
				how = Lost // that start of it is gone
			}
			w.end(id, how)
		}
		if w.next(w.T); w.over != nil {
			break
		}
		w.now = w.now.Add(w.terms.Pause)
	}
	require.NotNil(w, w.over, "%v", w.follows)
	if !w.leaving && !w.patient() {
		require.Equal(w, Completed, w.over.How)
	}
}

// Whatever publishers do: nobody is followed twice, the group does not end while somebody
// is followed or expected, it ends when those have completed, and says the same whenever
// it is told the same.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"": w.next, "comes": w.comes, "goes": w.goes, "drains": w.drains, "retires": w.retires, "opens": w.opens,
			"tires": w.tires, "breaks": w.breaks, "says": w.says, "ends": w.ends, "waits": w.waits, "leaves": w.leaves,
		})
		w.comesToItsEnd()
	})
}
