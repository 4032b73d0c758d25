package autodemand_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicenet/sluice/internal/autodemand"
	"github.com/sluicenet/sluice/internal/credit"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// flow is a producer, a link and a consumer, in virtual time.
type flow struct {
	trip     time.Duration // of the link, there and back
	produces float64       // events a second
	handles  float64
	size     int64 // of an event
	bounds   autodemand.Bounds

	now       time.Time
	sizer     *autodemand.Sizer
	window    credit.Window
	asks      []shipment // on their way to the producer
	sent      []shipment // on their way to the consumer
	granted   int64      // as the producer knows it
	produced  int64
	may       float64 // what it may have produced by now
	queue     int64
	runs      []int64 // what the queue is made of: deliveries are cut, and not merged
	batch     int64   // in hand
	until     time.Time
	idle      time.Time // since when; zero when it is not
	sizes     []int64   // every value there was
	workedOff int64     // what is open when this is processed was asked for with the value
}

type shipment struct {
	at time.Time
	n  int64
}

func newFlow(f flow) *flow {
	const start = 1000
	f.now = time.Unix(0, 0)
	f.idle = f.now
	f.sizer = autodemand.New(f.bounds, start)
	f.window = credit.NewWindow(start, start/4*3, false)
	f.asks = []shipment{{f.now.Add(f.trip / 2), f.window.Start()}}
	f.sizes = []int64{start}
	return &f
}

// run lets time pass.
func (f *flow) run(d time.Duration) {
	step := max(f.trip/20, 100*time.Microsecond)
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(step) {
		f.produce(step)
		f.arrive()
		f.consume()
	}
}

func (f *flow) produce(step time.Duration) {
	for len(f.asks) > 0 && !f.asks[0].at.After(f.now) {
		f.granted += f.asks[0].n
		f.asks = f.asks[1:]
	}
	f.may = min(f.may+f.produces*step.Seconds(), max(f.produces*step.Seconds(), 1))
	if n := min(int64(f.may), f.granted-f.produced); n > 0 {
		f.may -= float64(n)
		f.produced += n
		f.sent = append(f.sent, shipment{f.now.Add(f.trip - f.trip/2), n})
	}
}

func (f *flow) arrive() {
	for len(f.sent) > 0 && !f.sent[0].at.After(f.now) {
		n := f.sent[0].n
		f.sent = f.sent[1:]
		waited := time.Duration(0)
		if !f.idle.IsZero() && f.queue == 0 {
			waited = f.now.Sub(f.idle)
		}
		if !f.window.Receive(n) {
			panic("more than was asked for")
		}
		f.sizer.Arrived(n, f.window.Received(), n*f.size, waited, f.now)
		f.queue += n
		f.runs = append(f.runs, n)
	}
}

func (f *flow) consume() {
	for {
		if f.batch > 0 {
			if f.until.After(f.now) {
				return
			}
			f.queue -= f.batch
			value := f.sizer.Processed(f.batch, f.queue, f.now)
			if value != f.window.Max() {
				f.window.Resize(value, value*3/4)
				f.sizes = append(f.sizes, value)
				f.workedOff = f.window.Sent()
			}
			ask := f.window.Processed(f.batch)
			f.batch = 0
			if f.window.Open() > value && f.window.Acked() >= f.workedOff {
				panic("more is open than the value, and what was open before is worked off")
			}
			if ask > 0 {
				if f.window.Open() > value {
					panic("more is open than the value")
				}
				f.sizer.Asked(f.window.Sent()-ask, f.now)
				f.asks = append(f.asks, shipment{f.now.Add(f.trip / 2), ask})
			}
		}
		if f.queue == 0 {
			if f.idle.IsZero() {
				f.idle = f.until
			}
			return
		}
		from := f.until // it does not lose what is left of a step
		if !f.idle.IsZero() {
			from, f.idle = f.now, time.Time{}
		}
		f.batch = min(f.runs[0], f.window.Batch())
		if f.runs[0] -= f.batch; f.runs[0] == 0 {
			f.runs = f.runs[1:]
		}
		f.until = from.Add(time.Duration(float64(f.batch) / f.handles * float64(time.Second)))
	}
}

var wide = autodemand.Bounds{Min: 100, Max: 32_000, Bytes: 8 << 20}

const fast = 1e8

func TestTranscript(t *testing.T) {
	for name, c := range map[string]struct {
		flow flow
		want []int64
		why  string
	}{
		"a long link is filled": {
			flow{trip: 50 * ms, produces: fast, handles: fast, bounds: wide},
			[]int64{1000, 2000, 4000, 8000, 16_000, 32_000}, "the consumer waits, and it is at the maximum; round trip 50ms",
		},
		"a slow producer": {
			flow{trip: ms, produces: 100_000, handles: fast, bounds: wide},
			[]int64{1000, 2000, 1000, 2000, 1000, 2000, 1000}, "more did not help",
		},
		"a slow consumer": {
			flow{trip: ms, produces: fast, handles: 10_000, bounds: wide},
			[]int64{1000, 550, 325, 212}, "the consumer is the brake",
		},
		"a slow consumer that is far away": {
			flow{trip: 50 * ms, produces: fast, handles: 2500, bounds: wide},
			[]int64{1000, 687, 531}, "the consumer is ",
		},
		"large events": {
			flow{trip: 50 * ms, produces: fast, handles: fast, bounds: wide, size: 1 << 20},
			[]int64{1000, 8}, "it is at the maximum in bytes; round trip 50ms; 1048576 bytes an event",
		},
		"events larger than all bounds": {
			flow{trip: 50 * ms, produces: fast, handles: fast, bounds: wide, size: 1 << 30},
			[]int64{1000, 1}, "it is at the maximum in bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(c.flow)
			f.run(20 * time.Second)
			require.Equal(t, c.want, f.sizes[:min(len(f.sizes), len(c.want))], fmt.Sprint(f.sizes))
			require.True(t, strings.HasPrefix(f.sizer.Why(), c.why), f.sizer.Why())
		})
	}
}

// The round trip is the shortest of the last eight: one that took long says nothing.
func TestRoundTrip(t *testing.T) {
	now := time.Unix(0, 0)
	s := autodemand.New(wide, 1000)
	received := int64(0)
	f := func(took time.Duration, want string) {
		t.Helper()
		s.Asked(received, now)
		s.Asked(received+1, now.Add(ms)) // the first one counts
		s.Arrived(0, received, 0, 0, now.Add(ms))
		now = now.Add(took)
		received++
		s.Arrived(1, received, 0, 0, now)
		require.Equal(t, "it begins here; round trip "+want, s.Why())
	}
	f(50*ms, "50ms")
	f(5*time.Second, "50ms")
	f(40*ms, "40ms")
	for range 7 {
		f(60*ms, "40ms")
	}
	f(60*ms, "60ms")
}

// Sizes are those of the latest events, about as many as are asked for.
func TestSizesAreTheLatest(t *testing.T) {
	s := autodemand.New(wide, 1000)
	received := int64(0)
	f := func(n, size, least, most int64) {
		t.Helper()
		for range n / 100 {
			received += 100
			s.Arrived(100, received, 100*size, 0, time.Unix(0, 0))
		}
		require.GreaterOrEqual(t, s.Value(), least)
		require.LessOrEqual(t, s.Value(), most)
	}
	f(1_000_000, 8, 1000, 1000)
	f(3000, 1<<20, 8, 9)
	f(3000, 8, 100, 100) // the least; whether more helps is tried
}

func anyFlow(t *rapid.T) flow {
	rate := func(name string) float64 { return float64(rapid.IntRange(1000, 2_000_000).Draw(t, name)) }
	b := autodemand.Bounds{Min: rapid.Int64Range(1, 1000).Draw(t, "min"), Max: rapid.Int64Range(1000, 40_000).Draw(t, "max"), Bytes: 8 << 20}
	return flow{
		trip:     time.Duration(rapid.IntRange(20, 60).Draw(t, "trip")) * ms,
		produces: rate("produces"), handles: rate("handles"), bounds: b,
		size: rapid.SampledFrom([]int64{0, 8, 1000, 100_000, 10 << 20}).Draw(t, "size"),
	}
}

// fit is how many of the largest events there may be fit into the bounds.
func (f *flow) fit() int64 { return max(f.bounds.Bytes/(10<<20), 1) }

// Whatever the flow: the value is within its bounds, no more is asked for, and once a
// value that has come down is worked off, no more is open. Nothing stands still.
// Row AUT-03.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFlow(anyFlow(t))
		for range 10 {
			f.run(200 * ms)
			if rapid.Bool().Draw(t, "change") {
				other := anyFlow(t)
				f.size, f.produces, f.handles = other.size, other.produces, other.handles
			}
			v := f.sizer.Value()
			require.LessOrEqual(t, v, f.bounds.Max)
			require.GreaterOrEqual(t, v, min(f.bounds.Min, f.fit()))
		}
		done := f.window.Acked()
		f.run(5 * time.Second)
		require.Greater(t, f.window.Acked(), done, "it moves")
	})
}

// needed is how much fills a link.
func needed(f *flow) float64 { return min(f.produces, f.handles) * f.trip.Seconds() }

// A consumer that waits for its window has enough after a number of round trips that is
// logarithmic in how much more it needs: each doubling takes one to settle and four to judge.
// Row AUT-04.
func TestGrowsFast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFlow(t)
		f.size, f.produces, f.handles = 0, fast, fast
		f.bounds.Max = rapid.Int64Range(1000, 1_000_000).Draw(t, "max")
		g := newFlow(f)
		doublings := 1
		for v := int64(1000); v < f.bounds.Max; v *= 2 {
			doublings++
		}
		g.run(time.Duration(8*doublings+8) * g.trip)
		require.GreaterOrEqual(t, g.sizer.Value(), g.bounds.Max*2/3, g.sizes)
	})
}

// A consumer that is the brake keeps a little more than it processes in a round trip, and
// it is not starved for that.
// Row AUT-05.
func TestShrinksToWhatIsProcessed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFlow(flow{trip: time.Duration(rapid.IntRange(20, 60).Draw(t, "trip")) * ms, produces: fast, bounds: wide})
		f.handles = float64(rapid.IntRange(1000, 100_000).Draw(t, "handles"))
		f.run(12 * time.Second)
		done := f.window.Acked()
		from := len(f.sizes) - 1
		f.run(10 * time.Second)
		most := slices.Max(f.sizes[from:])
		require.LessOrEqual(t, float64(most), max(8*needed(f), 1.5*float64(f.bounds.Min)), f.sizes)
		require.Greater(t, float64(f.window.Acked()-done), 10*f.handles*0.8, f.sizes)
	})
}

// A load that stays is met by a value that stays, or is tried out by a factor of two. One
// that is a little too much takes long to be seen: then the value may still come down.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFlow(t)
		f.size = 0
		g := newFlow(f)
		g.run(20 * time.Second)
		from := len(g.sizes) - 1
		g.run(20 * time.Second)
		least := g.sizes[from]
		for _, v := range g.sizes[from:] {
			require.LessOrEqual(t, v, 2*least+1, g.sizes[max(from-5, 0):])
			least = min(least, v)
		}
	})
}
