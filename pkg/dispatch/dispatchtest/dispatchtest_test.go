package dispatchtest

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluicenet/sluice/pkg/dispatch"
)

// The three dispatchers keep the contract. DDX-05, DDX-06, DDX-07, DDX-12, DBX-02,
// DBX-03, DPX-05, DPX-07, DPX-13 and EDG-07 are parts of it.
func TestDispatchers(t *testing.T) {
	for name, newDispatcher := range kinds {
		t.Run(name, func(t *testing.T) { Test(t, newDispatcher) })
	}
}

var kinds = map[string]func() dispatch.Dispatcher[int]{
	"demand":    dispatch.Demand[int],
	"broadcast": dispatch.Broadcast[int],
	"partition": func() dispatch.Dispatcher[int] {
		return dispatch.Partition(3, func(event int) int { return event })
	},
	"one partition": func() dispatch.Dispatcher[int] {
		return dispatch.Partition(1, func(event int) int { return event })
	},
}

// Each of these breaks the contract in one place.
type (
	silent   struct{ dispatch.Dispatcher[int] }
	laneless struct{ dispatch.Dispatcher[int] }
	outside  struct{ dispatch.Dispatcher[int] }
	fickle   struct {
		dispatch.Dispatcher[int]
		n int
	}
	generous   struct{ dispatch.Dispatcher[int] }
	forgetful  struct{ dispatch.Dispatcher[int] }
	ghostly    struct{ dispatch.Dispatcher[int] }
	hospitable struct{ dispatch.Dispatcher[int] }
	rude       struct{ dispatch.Dispatcher[int] }
	closed     struct{ dispatch.Dispatcher[int] }
	stingy     struct{ dispatch.Dispatcher[int] }
	idle       struct{ dispatch.Dispatcher[int] }
	endless    struct{ dispatch.Dispatcher[int] }
	twice      struct{ dispatch.Dispatcher[int] }
	nobody     struct{ dispatch.Dispatcher[int] }
	beyond     struct{ dispatch.Dispatcher[int] }
	elsewhere  struct{ dispatch.Dispatcher[int] }
	boastful   struct{ dispatch.Dispatcher[int] }
	liar       struct{ dispatch.Dispatcher[int] }
	keeper     struct{ dispatch.Dispatcher[int] }
	gullible   struct{ dispatch.Dispatcher[int] }
	slippery   struct{ dispatch.Dispatcher[int] }
	inflated   struct {
		dispatch.Dispatcher[int]
		gone int64
	}
	narrow struct {
		dispatch.Dispatcher[int]
		asked map[dispatch.ID]int64
	}
)

func (silent) Kind() string               { return "" }
func (laneless) Lanes() int               { return 0 }
func (outside) Lane(event int) int        { return event }
func (f *fickle) Lane(int) int            { f.n++; return f.n % 2 }
func (*fickle) Lanes() int                { return 2 }
func (generous) Revoke(dispatch.ID) int64 { return 0 }
func (forgetful) Leave(dispatch.ID)       {}

func (g ghostly) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := g.Dispatcher.Next(waiting)
	d.To = []dispatch.ID{99}
	return d, ok
}

func (h hospitable) Join(id dispatch.ID, terms dispatch.Terms) error {
	err := h.Dispatcher.Join(id, terms)
	if err != nil {
		_ = h.Dispatcher.Join(id, dispatch.Terms{Partition: dispatch.NoPartition})
	}
	return err
}

func (r rude) Join(id dispatch.ID, terms dispatch.Terms) error {
	if err := r.Dispatcher.Join(id, terms); err != nil {
		return errors.New("go away")
	}
	return nil
}

func (closed) Join(dispatch.ID, dispatch.Terms) error { return dispatch.ErrUnsupported }

func (s stingy) Ask(id dispatch.ID, n int64) { s.Dispatcher.Ask(id, (n+1)/2) }

func (idle) Next(func(int) int) (dispatch.Delivery, bool) { return dispatch.Delivery{}, false }

func (e endless) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := e.Dispatcher.Next(waiting)
	for !ok && waiting(0) == 0 {
		continue
	}
	return d, ok
}

func (w twice) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := w.Dispatcher.Next(waiting)
	d.To = slices.Repeat(d.To, 2)
	return d, ok
}

func (n nobody) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := n.Dispatcher.Next(waiting)
	d.To = nil
	return d, ok
}

func (b beyond) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := b.Dispatcher.Next(waiting)
	d.N++
	return d, ok
}

func (e elsewhere) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := e.Dispatcher.Next(waiting)
	d.Lane++
	return d, ok
}

func (b boastful) Demand() int64 { return 2 * b.Dispatcher.Demand() }

func (l liar) Revoke(id dispatch.ID) int64 { return l.Dispatcher.Revoke(id) + 1 }

// What is taken back is still there.
func (k keeper) Revoke(id dispatch.ID) int64 {
	had := k.Dispatcher.Revoke(id)
	if had > 0 {
		k.Dispatcher.Ask(id, had)
	}
	return had
}

// Somebody who is not there is made a subscriber by asking.
func (g gullible) Ask(id dispatch.ID, n int64) {
	if g.Dispatcher.Revoke(id); id == 0 {
		_ = g.Dispatcher.Join(1<<40, dispatch.Terms{Partition: dispatch.NoPartition})
		id = 1 << 40
	}
	g.Dispatcher.Ask(id, n)
}

// What is given is not booked.
func (s slippery) Next(waiting func(int) int) (dispatch.Delivery, bool) {
	d, ok := s.Dispatcher.Next(waiting)
	for _, id := range d.To {
		s.Dispatcher.Ask(id, int64(d.N))
	}
	return d, ok
}

// What a subscriber that left has asked for is still wanted.
func (i *inflated) Leave(id dispatch.ID) {
	i.gone += i.Dispatcher.Revoke(id)
	i.Dispatcher.Leave(id)
}
func (i *inflated) Demand() int64 { return i.Dispatcher.Demand() + i.gone }

// Sums overflow.
func (n *narrow) Ask(id dispatch.ID, k int64) {
	if n.asked[id] += k; n.asked[id] < 0 {
		n.Dispatcher.Revoke(id)
		return
	}
	n.Dispatcher.Ask(id, k)
}

// A suite is as good as its ability to find something. Each broken dispatcher is
// found, by the right law.
func TestBrokenDispatchersAreFound(t *testing.T) {
	// Always the same steps, since there may be more than one right complaint. Numbers
	// depend on how far a failure was minimized in its time, and do not count.
	for name, value := range map[string]string{"nofailfile": "true", "shrinktime": "100ms", "seed": "7"} {
		f := flag.Lookup("rapid." + name)
		before := f.Value.String()
		require.NoError(t, f.Value.Set(value))
		t.Cleanup(func() { require.NoError(t, f.Value.Set(before)) })
	}
	broken := func(d func(dispatch.Dispatcher[int]) dispatch.Dispatcher[int], why string) {
		newBroken := func() dispatch.Dispatcher[int] { return d(dispatch.Demand[int]()) }
		t.Run(fmt.Sprintf("%T", newBroken()), func(t *testing.T) {
			require.Regexp(t, why, complaints(newBroken))
		})
	}
	type it = dispatch.Dispatcher[int]
	broken(func(d it) it { return silent{d} }, `Kind is ""`)
	broken(func(d it) it { return laneless{d} }, `Lanes is \d+`)
	broken(func(d it) it { return outside{d} }, `Lane\(\d+\) is \d+, and Lanes is \d+`)
	broken(func(d it) it { return &fickle{Dispatcher: d} }, "and then")
	broken(func(d it) it { return generous{d} }, `Revoke\(\d+\) returns \d+, and \d+ were asked for`)
	broken(func(d it) it { return forgetful{d} }, `which is not there|who is not there changes Demand|returns \d+, and \d+ were asked for`)
	broken(func(d it) it { return ghostly{d} }, `\d+, which is not there`)
	broken(func(d it) it { return hospitable{d} }, `which was refused|who is not there changes Demand|returns \d+, and \d+ were asked for`)
	broken(func(d it) it { return rude{d} }, "none of package dispatch: go away")
	broken(func(d it) it { return closed{d} }, "nobody can join")
	broken(func(d it) it { return stingy{d} }, "were asked for and not given")
	broken(func(d it) it { return idle{d} }, "Next gives nothing")
	broken(func(d it) it { return endless{d} }, "does not come to an end")
	broken(func(d it) it { return twice{d} }, `\d+ twice: \[`)
	broken(func(d it) it { return nobody{d} }, `\d+ events are given to nobody`)
	broken(func(d it) it { return beyond{d} }, `\d+ events are given of \d+ that wait`)
	broken(func(d it) it { return elsewhere{d} }, `of lane \d+, and Lanes is \d+`)
	broken(func(d it) it { return boastful{d} }, `Demand was \d+, \d+ were given`)
	broken(func(d it) it { return liar{d} }, `Revoke\(\d+\) returns \d+`)
	broken(func(d it) it { return keeper{d} }, `which has asked for \d+ more|Next gives nothing|and \d+ were asked for|and with events enough`)
	broken(func(d it) it { return gullible{d} }, `an ask of somebody who is not there changes Demand from \d+ to \d+`)
	broken(func(d it) it { return slippery{d} }, `and now it is \d+`)
	broken(func(d it) it { return &inflated{Dispatcher: d} }, "Next gives nothing: Demand is|and with events enough")
	broken(func(d it) it { return &narrow{d, map[dispatch.ID]int64{}} }, "sums saturate")
}

// complaints runs the suite and returns what it has to say.
func complaints(newDispatcher func() dispatch.Dispatcher[int]) (said string) {
	for _, l := range laws {
		tb := &listener{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			rapid.Check(tb, func(t *rapid.T) { l.hold(begin(t, newDispatcher())) })
		}()
		<-done
		said += tb.said
	}
	return said
}

// listener is a test that only listens.
type listener struct {
	said   string
	failed bool
}

func (l *listener) Helper()                   {}
func (l *listener) Name() string              { return "listener" }
func (l *listener) Logf(f string, a ...any)   { l.said += fmt.Sprintf(f, a...) + "\n" }
func (l *listener) Log(a ...any)              { l.said += fmt.Sprintln(a...) }
func (l *listener) Skipf(string, ...any)      { runtime.Goexit() }
func (l *listener) Skip(...any)               { runtime.Goexit() }
func (l *listener) SkipNow()                  { runtime.Goexit() }
func (l *listener) Errorf(f string, a ...any) { l.Logf(f, a...); l.Fail() }
func (l *listener) Error(a ...any)            { l.Log(a...); l.Fail() }
func (l *listener) Fatalf(f string, a ...any) { l.Logf(f, a...); l.FailNow() }
func (l *listener) Fatal(a ...any)            { l.Log(a...); l.FailNow() }
func (l *listener) FailNow()                  { l.Fail(); runtime.Goexit() }
func (l *listener) Fail()                     { l.failed = true }
func (l *listener) Failed() bool              { return l.failed }
