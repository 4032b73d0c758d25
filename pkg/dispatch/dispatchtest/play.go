package dispatchtest

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"pgregory.net/rapid"
)

// play is a dispatcher, and what has to be true of it, kept in the plainest way.
type play struct {
	*rapid.T
	d       dispatch.Dispatcher[int]
	kind    string
	credit  map[dispatch.ID]int64 // of those who are here
	refused map[dispatch.ID]bool
	waiting []int // how many events wait in each lane
	lastID  dispatch.ID
	events  int
}

func begin(t *rapid.T, d dispatch.Dispatcher[int]) *play {
	if d.Lanes() < 1 {
		t.Fatalf("Lanes is %d: there is at least one", d.Lanes())
	}
	return &play{T: t, d: d, kind: d.Kind(), waiting: make([]int, d.Lanes()),
		credit: map[dispatch.ID]int64{}, refused: map[dispatch.ID]bool{}}
}

// steps takes steps at random.
func (p *play) steps() {
	if rapid.Bool().Draw(p.T, "with somebody there") {
		p.welcome()
	}
	p.Repeat(map[string]func(*rapid.T){
		"": p.invariants,
		"join": func(t *rapid.T) {
			p.join(dispatch.Terms{
				Partition: rapid.IntRange(dispatch.NoPartition, len(p.waiting)).Draw(t, "partition"),
				Selector:  rapid.IntRange(0, 9).Draw(t, "selector") == 0,
			})
		},
		"ask":    func(t *rapid.T) { p.ask(p.anyone(t), rapid.Int64Range(1, 8).Draw(t, "n")) },
		"revoke": func(t *rapid.T) { p.revoke(p.anyone(t)) },
		"leave":  func(t *rapid.T) { p.leave(p.anyone(t)) },
		"emit":   func(t *rapid.T) { p.emit(rapid.IntRange(1, 9).Draw(t, "n")) },
		"flood":  func(*rapid.T) { p.flood() },
	})
}

// anyone is a subscriber, or somebody who is none.
func (p *play) anyone(t *rapid.T) dispatch.ID {
	here := slices.Sorted(maps.Keys(p.credit))
	return rapid.SampledFrom(append(here, 0, p.lastID, p.lastID+1)).Draw(t, "who")
}

func (p *play) join(terms dispatch.Terms) error {
	p.lastID++
	before := p.d.Demand()
	err := p.d.Join(p.lastID, terms)
	if err == nil {
		p.credit[p.lastID] = 0
	} else {
		p.refused[p.lastID] = true
		if !known(err) {
			p.Fatalf("Join(%+v) returns an error that is none of package dispatch: %v", terms, err)
		}
		p.unchanged("a refused Join", before)
	}
	p.settle()
	return err
}

func known(err error) bool {
	return slices.ContainsFunc([]error{
		dispatch.ErrNoPartition, dispatch.ErrPartitionRange, dispatch.ErrPartitionTaken, dispatch.ErrUnsupported,
	}, func(k error) bool { return errors.Is(err, k) })
}

func (p *play) ask(id dispatch.ID, n int64) {
	before := p.d.Demand()
	p.d.Ask(id, n)
	if c, here := p.credit[id]; here {
		p.credit[id] = add(c, n)
	} else {
		p.unchanged("an ask of somebody who is not there", before)
	}
	p.settle()
}

func (p *play) revoke(id dispatch.ID) {
	before := p.d.Demand()
	if had := p.d.Revoke(id); had != p.credit[id] {
		p.Fatalf("Revoke(%d) returns %d, and %d were asked for and not given", id, had, p.credit[id])
	}
	if _, here := p.credit[id]; here {
		p.credit[id] = 0
	} else {
		p.unchanged("Revoke of somebody who is not there", before)
	}
	p.settle()
}

func (p *play) leave(id dispatch.ID) {
	before := p.d.Demand()
	p.d.Leave(id)
	if _, here := p.credit[id]; !here {
		p.unchanged("Leave of somebody who is not there", before)
	}
	delete(p.credit, id)
	p.settle()
}

func (p *play) emit(n int) {
	for range n {
		lane := p.d.Lane(p.events)
		if lane < 0 || lane >= len(p.waiting) {
			p.Fatalf("Lane(%d) is %d, and Lanes is %d", p.events, lane, len(p.waiting))
		}
		if again := p.d.Lane(p.events); again != lane {
			p.Fatalf("Lane(%d) is %d, and then %d: what comes back to a lane is to keep its order", p.events, lane, again)
		}
		p.waiting[lane]++
		p.events++
	}
	p.settle()
}

// flood lets as many events wait in each lane as anybody may want. What is given then
// is what Demand has said.
func (p *play) flood() {
	before := p.d.Demand()
	if before > 1<<20 {
		return
	}
	waited := slices.Clone(p.waiting)
	for i := range p.waiting {
		p.waiting[i] = math.MaxInt32
	}
	given := p.settle()
	if given != before {
		p.Fatalf("Demand is %d, and with events enough in every lane %d are given", before, given)
	}
	p.waiting = waited // the others have gone again
}

// settle calls Next until it returns false, and returns how many events were given.
func (p *play) settle() (given int64) {
	asked := 0
	waiting := func(lane int) int {
		if lane < 0 || lane >= len(p.waiting) {
			p.Fatalf("Next asks for lane %d, and Lanes is %d", lane, len(p.waiting))
		}
		if asked++; asked > 1<<20 {
			p.Fatalf("Next does not come to an end")
		}
		return p.waiting[lane]
	}
	for {
		before := p.d.Demand()
		d, ok := p.d.Next(waiting)
		if !ok {
			break
		}
		p.take(d)
		given += int64(d.N)
		if after := p.d.Demand(); before < math.MaxInt32 && after != before-int64(d.N) {
			p.Fatalf("Demand was %d, %d were given, and now it is %d", before, d.N, after)
		}
	}
	if p.d.Demand() > 0 && !slices.Contains(p.waiting, 0) {
		p.Fatalf("Next gives nothing: Demand is %d, and %v wait in the lanes", p.d.Demand(), p.waiting)
	}
	return given
}

// take checks a delivery and books it.
func (p *play) take(d dispatch.Delivery) {
	switch {
	case d.Lane < 0 || d.Lane >= len(p.waiting):
		p.Fatalf("events are given of lane %d, and Lanes is %d", d.Lane, len(p.waiting))
	case d.N < 1:
		p.Fatalf("%d events are given", d.N)
	case d.N > p.waiting[d.Lane]:
		p.Fatalf("%d events are given of %d that wait in lane %d", d.N, p.waiting[d.Lane], d.Lane)
	case len(d.To) == 0:
		p.Fatalf("%d events are given to nobody", d.N)
	}
	for i, id := range d.To {
		credit, here := p.credit[id]
		switch {
		case p.refused[id]:
			p.Fatalf("events are given to %d, which was refused", id)
		case !here:
			p.Fatalf("events are given to %d, which is not there", id)
		case slices.Contains(d.To[:i], id):
			p.Fatalf("events are given to %d twice: %v", id, d.To)
		case int64(d.N) > credit:
			p.Fatalf("%d events are given to %d, which has asked for %d more", d.N, id, credit)
		case credit < math.MaxInt64:
			p.credit[id] -= int64(d.N)
		}
	}
	p.waiting[d.Lane] -= d.N
}

func (p *play) invariants(*rapid.T) {
	switch demand := p.d.Demand(); {
	case demand < 0:
		p.Fatalf("Demand is %d", demand)
	case demand != p.d.Demand():
		p.Fatalf("Demand is %d, and then %d, and nothing has happened", demand, p.d.Demand())
	case p.d.Kind() == "" || p.d.Kind() != p.kind:
		p.Fatalf("Kind is %q, and was %q", p.d.Kind(), p.kind)
	case p.d.Lanes() != len(p.waiting):
		p.Fatalf("Lanes is %d, and was %d", p.d.Lanes(), len(p.waiting))
	}
}

func (p *play) unchanged(what string, before int64) {
	if after := p.d.Demand(); after != before {
		p.Fatalf("%s changes Demand from %d to %d", what, before, after)
	}
}

// admission checks that somebody can join, and that a newcomer has no credit.
func (p *play) admission() {
	if p.d.Demand() != 0 {
		p.Fatalf("Demand is %d before anybody has joined", p.d.Demand())
	}
	if p.welcome() == 0 {
		p.Fatalf("nobody can join, with whichever partition and without")
	}
	if p.d.Demand() != 0 {
		p.Fatalf("Demand is %d before anybody has asked", p.d.Demand())
	}
	p.emit(rapid.IntRange(1, 9).Draw(p.T, "n"))
}

// welcome lets a subscriber without a partition join, and one for each lane. It
// returns how many did.
func (p *play) welcome() int {
	for partition := dispatch.NoPartition; partition < len(p.waiting); partition++ {
		_ = p.join(dispatch.Terms{Partition: partition})
	}
	return len(p.credit)
}

// saturation checks asks whose sum is more than there are numbers.
func (p *play) saturation() {
	p.welcome()
	for range 2 {
		for id := range p.credit {
			p.ask(id, math.MaxInt64-rapid.Int64Range(0, 1).Draw(p.T, "less"))
			p.ask(id, rapid.Int64Range(1, 9).Draw(p.T, "n"))
		}
		if demand := p.d.Demand(); demand < 1<<40 {
			p.Fatalf("Demand is %d after asks that are more than there are numbers: sums saturate", demand)
		}
		p.emit(len(p.waiting) * rapid.IntRange(1, 9).Draw(p.T, "events"))
	}
	if slices.Max(p.waiting) > 0 && len(p.waiting) == 1 {
		p.Fatalf("%v wait, and more than there are numbers is asked for", p.waiting)
	}
}

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
