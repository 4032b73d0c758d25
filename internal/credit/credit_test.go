package credit_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSumsSaturate(t *testing.T) {
	f := func(got, want int64) {
		t.Helper()
		require.Equal(t, want, got)
	}
	const u = credit.Unbounded
	f(credit.Add(1, 2), 3)
	f(credit.Add(u-1, 1), u)
	f(credit.Add(u-1, 2), u)
	f(credit.Add(u, u), u)
	f(credit.Add(0, u), u)
	f(credit.Sub(5, 3), 2)
	f(credit.Sub(3, 5), -2)
	f(credit.Sub(u, 5), u)
	f(credit.Sub(u-1, 1), u-2)
}

// The traces of asks and batches that a consumer shows which is always sent what it
// has asked for.
func TestWindowCycle(t *testing.T) {
	f := func(max, min int64, asks, batches []int64) {
		t.Helper()
		gotAsks, gotBatches := cycle(credit.NewWindow(max, min, false), len(asks), len(batches))
		require.Equal(t, asks, gotAsks, "%d/%d", max, min)
		require.Equal(t, batches, gotBatches, "%d/%d", max, min)
	}
	f(1000, 750, []int64{1000, 250, 250, 250}, []int64{250, 250, 250, 250, 250}) // DEM-02
	f(10, 5, []int64{10, 5, 5, 5}, []int64{5, 5, 5, 5})                          // DEM-05
	f(6, 2, []int64{6, 4, 6, 4, 6}, []int64{4, 2, 4, 4, 2, 4})                   // DEM-06
	f(1, 0, []int64{1, 1, 1, 1}, []int64{1, 1, 1, 1})                            // DEM-07
	f(100, 80, []int64{100, 20, 20, 20}, []int64{20, 20, 20, 20, 20, 20})        // DEM-08
	f(100, 20, []int64{100, 80, 100, 80}, []int64{80, 20, 80, 80, 20})           // DEM-09
	f(20, 0, []int64{20, 20, 20}, []int64{20, 20, 20})                           // DEM-10
}

// cycle lets a producer fill each ask at once with one delivery, and returns the
// first asks and batches. Deliveries are cut into batches, and never merged.
func cycle(w credit.Window, nAsks, nBatches int) (asks, batches []int64) {
	due := []int64{w.Start()}
	asks = append(asks, due...)
	for len(asks) < nAsks || len(batches) < nBatches {
		delivery := due[0]
		due = due[1:]
		w.Receive(delivery)
		for delivery > 0 {
			n := min(delivery, w.Batch())
			delivery -= n
			batches = append(batches, n)
			if ask := w.Processed(n); ask > 0 {
				asks, due = append(asks, ask), append(due, ask)
			}
		}
	}
	return asks[:nAsks], batches[:nBatches]
}

func TestWindowSteps(t *testing.T) {
	// f processes what arrives in deliveries of these sizes, each as one batch.
	f := func(w credit.Window, arrive, asks []int64) {
		t.Helper()
		w.Start()
		got := make([]int64, 0, len(asks))
		for _, n := range arrive {
			require.True(t, w.Receive(n))
			got = append(got, w.Processed(n))
		}
		require.Equal(t, asks, got)
	}
	f(credit.NewWindow(10, 5, false), []int64{4, 1}, []int64{0, 5})                   // DEM-11, DEM-12
	f(credit.NewWindow(10, 5, false), []int64{3, 3}, []int64{0, 6})                   // DEM-13
	f(credit.NewWindow(1000, 750, false), []int64{100, 100, 100}, []int64{0, 0, 300}) // DEM-14
}

// DEM-22: what was not asked for is not taken.
func TestWindowTakesNoMoreThanAskedFor(t *testing.T) {
	w := credit.NewWindow(4, 2, false)
	require.False(t, w.Receive(1), "nothing was asked for yet")
	w.Start()
	require.False(t, w.Receive(5))
	require.True(t, w.Receive(4))
	require.False(t, w.Receive(1))
	require.Equal(t, int64(4), w.Received())
}

// GAT-03 and GAT-04: what is held counts as asked for, adds up, and leaves at once.
func TestWindowHolds(t *testing.T) {
	w := credit.NewWindow(4, 3, false)
	w.Start()
	require.True(t, w.Receive(4))
	for range 4 {
		w.Hold(w.Processed(1))
		require.Equal(t, int64(4), w.Open())
	}
	require.Equal(t, int64(4), w.Held())
	require.Equal(t, int64(4), w.Sent())
	require.False(t, w.Receive(1), "it has not left")
	require.Equal(t, int64(4), w.Release())
	require.Equal(t, int64(0), w.Release())
	require.True(t, w.Receive(4))
}

// BAT-04: a manual window asks for nothing by itself, and cuts nothing.
func TestManualWindow(t *testing.T) {
	w := credit.NewWindow(10, 5, true)
	require.Zero(t, w.Start())
	require.Zero(t, w.Batch())
	w.Ask(7)
	require.True(t, w.Receive(7))
	require.Zero(t, w.Processed(7))
	require.Zero(t, w.Open())
	require.Equal(t, []int64{10, 5, 7}, []int64{w.Max(), w.Min(), w.Acked()})
}

// What is unbounded stays so: nothing more is asked for, however much arrives.
func TestUnboundedWindow(t *testing.T) {
	w := credit.NewWindow(10, 5, false)
	w.Start()
	w.Ask(credit.Unbounded)
	for range 3 {
		require.True(t, w.Receive(math.MaxInt64/4))
		require.Zero(t, w.Processed(math.MaxInt64/4))
		require.Equal(t, int64(credit.Unbounded), w.Open())
	}
}

// DEM-12 and DEM-16, for any arrivals: no more is ever open than max, an ask is due
// exactly when no more than min is open, and brings it back to max.
func TestWindowLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		max := rapid.Int64Range(1, 20).Draw(t, "max")
		min := rapid.Int64Range(0, max-1).Draw(t, "min")
		w := credit.NewWindow(max, min, false)
		asked, arrived, done := w.Start(), int64(0), int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				n := rapid.Int64Range(0, 25).Draw(t, "n")
				fits := arrived+n <= asked
				require.Equal(t, fits, w.Receive(n))
				if fits {
					arrived += n
				}
			},
			"process": func(t *rapid.T) {
				n := rapid.Int64Range(0, arrived-done).Draw(t, "n")
				done += n
				want := int64(0)
				if asked-done <= min {
					want = max - (asked - done)
				}
				require.Equal(t, want, w.Processed(n))
				asked += want
			},
			"": func(t *rapid.T) {
				require.LessOrEqual(t, w.Open(), max)
				require.Equal(t, []int64{asked, arrived, done}, []int64{w.Sent(), w.Received(), w.Acked()})
			},
		})
	})
}

func TestLedgerRefuses(t *testing.T) {
	var l credit.Ledger
	require.ErrorIs(t, l.Ask(0), credit.AskNotPositive)
	require.ErrorIs(t, l.Ask(-1), credit.AskNotPositive)
	require.ErrorIs(t, l.Send(1), credit.SentBeyondAsk)
	require.NoError(t, l.Ask(3))
	require.NoError(t, l.Send(2))
	_, err := l.Ack(3)
	require.ErrorIs(t, err, credit.AckBeyondSent)
	n, err := l.Ack(2)
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	_, err = l.Ack(1)
	require.ErrorIs(t, err, credit.AckGoesBack)
	require.EqualError(t, err, "acknowledged less than before")
	require.Equal(t, []int64{3, 2, 2, 1}, []int64{l.Granted(), l.Sent(), l.Acked(), l.Credit()})
}

func TestLedgerTakesBack(t *testing.T) {
	var l credit.Ledger
	require.NoError(t, l.Ask(10))
	require.NoError(t, l.Send(4))
	l.Revoke(2)
	require.Equal(t, int64(4), l.Credit())
	l.Revoke(99)
	require.Zero(t, l.Credit())
	require.NoError(t, l.Ask(credit.Unbounded))
	require.NoError(t, l.Send(1))
	require.Equal(t, int64(credit.Unbounded), l.Credit(), "unbounded stays so")
	l.Revoke(1)
	require.Zero(t, l.Credit(), "of unbounded credit, all")
	_, err := l.Ack(3)
	require.NoError(t, err)
	l.Unsend(1)
	require.Equal(t, int64(1), l.Unacked())
	l.Unsend(99)
	require.Zero(t, l.Unacked(), "what is acknowledged was sent")
}

// The law of positions holds after any steps, and what is refused changes nothing.
func ledgerLaw(t *rapid.T) {
	var l credit.Ledger
	n := rapid.OneOf(rapid.Int64Range(-2, 12), rapid.SampledFrom([]int64{math.MaxInt64, math.MaxInt64 - 3}))
	small := rapid.Int64Range(0, 12)
	var before credit.Ledger
	step := func(err error) {
		if err != nil {
			require.Equal(t, before, l)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			require.LessOrEqual(t, int64(0), l.Acked())
			require.LessOrEqual(t, l.Acked(), l.Sent())
			require.LessOrEqual(t, l.Sent(), l.Granted())
			before = l
		},
		"ask":    func(t *rapid.T) { step(l.Ask(n.Draw(t, "n"))) },
		"send":   func(t *rapid.T) { step(l.Send(small.Draw(t, "n"))) },
		"ack":    func(t *rapid.T) { _, err := l.Ack(l.Acked() + n.Draw(t, "n")%1000); step(err) },
		"revoke": func(t *rapid.T) { l.Revoke(small.Draw(t, "n")) },
		"unsend": func(t *rapid.T) { l.Unsend(small.Draw(t, "n")) },
	})
}

func TestLedgerLaw(t *testing.T) { rapid.Check(t, ledgerLaw) }

// Ranges are a set: whatever is put into them is there, as few sorted ranges.
func rangesLaw(t *rapid.T) {
	var s credit.Ranges
	set := map[int64]bool{}
	acked := int64(0)
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			first := rapid.Int64Range(acked+1, acked+30).Draw(t, "first")
			last := rapid.Int64Range(first, first+5).Draw(t, "last")
			s.Add(first, last)
			for p := first; p <= last; p++ {
				set[p] = true
			}
		},
		"advance": func(t *rapid.T) {
			from := rapid.Int64Range(acked, acked+3).Draw(t, "acked")
			acked = from
			for p := range set {
				if p <= acked {
					delete(set, p)
				}
			}
			for set[acked+1] {
				acked++
				delete(set, acked)
			}
			require.Equal(t, acked, s.Advance(from))
		},
		"": func(t *rapid.T) {
			count := 0
			for p := acked + 1; p <= acked+60; p++ {
				require.Equal(t, set[p], s.Contains(p), "%d of %v", p, s.All())
				if set[p] {
					count++
				}
			}
			require.Equal(t, count, len(set))
			require.Equal(t, int64(count), s.Count())
			require.Equal(t, s.All()[:min(2, len(s.All()))], append(s.First(2), []credit.Range{}...))
			last := int64(-1)
			for _, r := range s.All() {
				require.LessOrEqual(t, r.First, r.Last)
				require.Greater(t, r.First, last+1, "ranges touch: %v", s.All())
				last = r.Last
			}
		},
	})
}

func TestRangesLaw(t *testing.T) { rapid.Check(t, rangesLaw) }

func TestCheck(t *testing.T) {
	type ranges = []credit.Range
	f := func(want bool, rs ranges, acked, last int64) {
		t.Helper()
		require.Equal(t, want, credit.Check(rs, acked, last), "%v above %d up to %d", rs, acked, last)
	}
	f(true, nil, 0, 0)
	f(true, ranges{{2, 2}}, 0, 2)
	f(true, ranges{{2, 3}, {5, 9}}, 0, 9)
	f(false, ranges{{1, 1}}, 0, 9)         // belongs into acked
	f(false, ranges{{2, 3}, {4, 9}}, 0, 9) // touch
	f(false, ranges{{5, 9}, {2, 3}}, 0, 9) // not sorted
	f(false, ranges{{3, 2}}, 0, 9)         // upside down
	f(false, ranges{{2, 10}}, 0, 9)        // beyond what was sent
	f(false, ranges{{3, 4}}, 5, 9)         // below acked
	f(false, ranges{{-5, math.MaxInt64}}, 0, 9)
}

// What All returns and what Check accepts is the same, for any set.
func TestRangesPassCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s credit.Ranges
		for _, p := range rapid.SliceOf(rapid.Int64Range(1, 50)).Draw(t, "positions") {
			s.Add(p, p)
		}
		acked := s.Advance(0)
		require.True(t, credit.Check(s.All(), acked, 50), "%v above %d", s.All(), acked)
	})
}

func FuzzLedger(f *testing.F) {
	f.Add(bytes.Repeat([]byte{3, 0, 0, 0, 0, 0, 0, 1}, 60))
	f.Add(bytes.Repeat([]byte{0xff}, 400))
	f.Fuzz(rapid.MakeFuzz(ledgerLaw))
}

func FuzzRanges(f *testing.F) {
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 7}, 60))
	f.Add(bytes.Repeat([]byte{0xee, 1}, 200))
	f.Fuzz(rapid.MakeFuzz(rangesLaw))
}

// A sum that had no bound for a while is exact again.
func TestSumComesBack(t *testing.T) {
	var s credit.Sum
	s.Add(5)
	for range 3 {
		s.Add(credit.Unbounded)
	}
	s.Add(credit.Unbounded - 1)
	require.Equal(t, int64(credit.Unbounded), s.Total())
	for range 3 {
		s.Take(credit.Unbounded)
	}
	require.Equal(t, int64(credit.Unbounded), s.Total())
	s.Take(5)
	require.Equal(t, int64(credit.Unbounded-1), s.Total())
	s.Take(credit.Unbounded - 1)
	require.Zero(t, s.Total())
}
