package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	f := func(want Verdict, last Triple, held bool, open Triple, known bool) {
		t.Helper()
		require.Equal(t, want.String(), Judge(last, held, open, known).String())
	}
	last := Triple{2, 5, 3}
	first, again, next, restarted := Triple{2, 5, 1}, Triple{2, 5, 4}, Triple{2, 6, 1}, Triple{3, 1, 1}

	// Nothing is remembered: a first Open begins, and one that goes on finds nothing.
	f(Fresh, Triple{}, false, first, false)
	f(Unknown, Triple{}, false, again, true)

	// Late, or repeated by the network, or from a process that was replaced.
	for _, held := range []bool{true, false} {
		for _, known := range []bool{true, false} {
			f(Stale, last, held, first, known)
			f(Stale, last, held, last, known)
			f(Stale, last, held, Triple{2, 4, 9}, known)
			f(Stale, last, held, Triple{1, 9, 9}, known)
		}
	}

	// The session is held: it goes on, whether its consumer has seen Opened or not.
	f(TakeOver, last, true, again, true)
	f(TakeOver, last, true, again, false)

	// An older session is held: its subscriber has left it behind.
	f(Replace, last, true, next, false)
	f(Replace, last, true, restarted, false)
	f(Unknown, last, true, next, true)
	f(Unknown, last, true, restarted, true)

	// The session is gone. It goes on for nobody, but may begin anew while its
	// consumer has received nothing of it.
	f(Unknown, last, false, again, true)
	f(Fresh, last, false, again, false)
	f(Fresh, last, false, next, false)
	f(Fresh, last, false, restarted, false)
}

func TestTriplesAreOrdered(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) Triple {
		small := rapid.Uint64Range(0, 2)
		return Triple{small.Draw(t, "incarnation"), small.Draw(t, "session"), small.Draw(t, "attempt")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw.Draw(t, "a"), draw.Draw(t, "b"), draw.Draw(t, "c")
		require.Equal(t, a == b, a.Compare(b) == 0)
		require.Equal(t, -a.Compare(b), b.Compare(a))
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 {
			require.LessOrEqual(t, a.Compare(c), 0)
		}
	})
}

// Whatever comes in whatever order, what is accepted only ever grows.
func TestJudgeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last Triple
		held := false
		for range rapid.IntRange(1, 30).Draw(t, "opens") {
			small := rapid.Uint64Range(1, 3)
			open := Triple{small.Draw(t, "incarnation"), small.Draw(t, "session"), small.Draw(t, "attempt")}
			switch v := Judge(last, held, open, rapid.Bool().Draw(t, "known")); v {
			case Stale:
				require.LessOrEqual(t, open.Compare(last), 0)
				continue
			case TakeOver:
				require.True(t, held && open.sameSession(last))
			case Replace:
				require.True(t, held && !open.sameSession(last))
			case Fresh, Unknown:
				require.False(t, held && open.sameSession(last))
			}
			require.Positive(t, open.Compare(last))
			last, held = open, rapid.Bool().Draw(t, "held")
		}
	})
}
