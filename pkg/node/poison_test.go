package node

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// An event that no consumer can handle comes back over the network MaxAttempts times, and
// is then given up by name, with what the last consumer said. Its neighbours, which shared
// a batch with it when it failed first, are handled, each once.
func TestPoison(t *testing.T) {
	const count, poison, attempts = 1000, 500, 3
	var errPoison = fmt.Errorf("cannot handle %d", poison)

	// The producer's end, and what it says about what it gives up.
	producer := func(t *testing.T) (a *Node, check func(consumed *record)) {
		t.Helper()
		a = testNode("a", Config{})
		source, letters := numbers(count), stage.NewDeadLetters[int]()
		source.Name, source.MaxAttempts, source.DeadLetters = "numbers", attempts, letters
		var told atomic.Int64
		source.OnDiscard = func(reason string, n int) {
			if reason == stage.DiscardExhausted {
				told.Add(int64(n))
			}
		}
		var dead []stage.DeadLetter[int]
		clerk := stage.NewSink(func(_ context.Context, batch []stage.DeadLetter[int]) error {
			dead = append(dead, batch...)
			return nil
		})
		stage.Connect(letters, clerk)
		Publish(a, ints, source)
		p := start(t, a, source, letters, clerk)
		return a, func(consumed *record) {
			t.Helper()
			require.NoError(t, p.wait())
			require.Equal(t, map[string]int64{stage.DiscardExhausted: 1}, source.Inspect().Discarded)
			require.EqualValues(t, 1, told.Load())
			require.Len(t, dead, 1)
			require.Contains(t, dead[0].Err, errPoison.Error())
			dead[0].Err = ""
			require.Equal(t, stage.DeadLetter[int]{
				Event: poison, Attempts: attempts, Stage: "numbers", Outlet: "numbers", Reason: stage.DiscardExhausted,
			}, dead[0])
			all := consumed.all()
			slices.Sort(all)
			want := slices.Delete(slices.Collect(func(yield func(int) bool) {
				for i := 0; i < count && yield(i); i++ {
				}
			}), poison, poison+1)
			require.Equal(t, want, all)
		}
	}
	// A sink that does not say which event of a batch it was.
	consumer := func(got *record, n *Node) *stage.Sink[int] {
		k := stage.NewSink(func(_ context.Context, batch []int) error {
			if slices.Contains(batch, poison) {
				return errPoison
			}
			got.add(batch)
			return nil
		})
		k.Name = "strict"
		stage.Connect(Outlet(n, ints), k)
		return k
	}

	t.Run("restarted", func(t *testing.T) {
		t.Parallel()
		a, check := producer(t)
		b := testNode("b", Config{Join: join(a)})
		var got record
		sup := stage.Supervise(stage.OneForOne, func() stage.Runner { return consumer(&got, b) })
		sup.Tolerance = stage.Tolerance{Restarts: 2 * attempts}
		restarts := 0
		sup.OnRestart = func(_ int, why error) {
			restarts++
			require.ErrorIs(t, why, errPoison)
		}
		require.NoError(t, start(t, b, sup).wait())
		check(&got)
		require.Equal(t, attempts, restarts)
	})
	t.Run("taken over", func(t *testing.T) {
		t.Parallel()
		a, check := producer(t)
		var got record
		for i := range attempts {
			n := testNode(fmt.Sprint("b", i), Config{Join: join(a)})
			require.ErrorIs(t, start(t, n, consumer(&got, n)).wait(), errPoison)
		}
		n := testNode("last", Config{Join: join(a)})
		require.NoError(t, start(t, n, consumer(&got, n)).wait())
		check(&got)
	})
}
