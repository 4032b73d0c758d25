package stage

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// For any batch, any poison in it, any policy and a handler that may say how far it came:
// each event is processed or given up exactly once, in order; only poison is given up, or
// fails the stage; and nothing is tried more often than the policy allows.
func TestTrialModel(t *testing.T) {
	oops := errors.New("oops")
	rapid.Check(t, func(t *rapid.T) {
		p := ErrorPolicy{
			Retries: rapid.IntRange(0, 4).Draw(t, "retries"),
			Then:    rapid.SampledFrom([]ErrorAction{Fail, Skip, ToDeadLetters}).Draw(t, "then"),
		}
		poison := rapid.SliceOfN(rapid.Bool(), 1, 12).Draw(t, "poison")
		says := rapid.Bool().Draw(t, "the handler says how far it came")
		try := newTrial(p, len(poison))
		fate := make([]string, len(poison))
		tries := make([]int, len(poison)) // in vain, of those at the front
		book := func(from, n int, what string) {
			for i := from; i < from+n; i++ {
				require.Empty(t, fate[i], "event %d has its fate", i)
				fate[i] = what
			}
		}
		for try.left > 0 {
			from := len(poison) - try.left
			require.Positive(t, try.size)
			var err error
			for i := range try.size {
				if poison[from+i] {
					err = oops
					if says {
						err = FailedAt(i, oops)
					}
					break
				}
			}
			if err != nil {
				tries[from]++
			}
			pressed := rapid.Bool().Draw(t, "pressed")
			n, then := try.after(err, pressed)
			book(from, n, "processed")
			from += n
			switch then {
			case wait:
				require.False(t, pressed)
				require.Positive(t, try.tries())
				d := try.delay()
				require.Positive(t, d)
				require.LessOrEqual(t, d, 15*time.Second)
			case giveUp:
				require.NotEqual(t, Fail, p.Then)
				book(from, 1, "given up")
				try.advance(1)
			case fail:
				require.Equal(t, Fail, p.Then)
				for i := range from {
					require.Equal(t, "processed", fate[i])
				}
				if says {
					require.True(t, poison[from] && try.size == 1, "it is known which one it was")
				}
				return
			}
		}
		for i := range poison {
			want := "processed"
			if poison[i] {
				want = "given up"
			}
			require.Equal(t, want, fate[i], "event %d", i)
			require.LessOrEqual(t, tries[i], p.Retries+2, "event %d", i)
		}
	})
}

// A delay about doubles, and has a limit.
func TestTrialDelay(t *testing.T) {
	try := newTrial(ErrorPolicy{Retries: 100, Delay: time.Second, MaxDelay: 4 * time.Second}, 3)
	for _, want := range []time.Duration{1, 2, 4, 4, 4} {
		d := try.delay()
		require.InDelta(t, want*time.Second, d, float64(want*time.Second)/2)
	}
	try.after(nil, false)
	require.InDelta(t, time.Second, try.delay(), float64(time.Second)/2, "anew for what comes next")
}
