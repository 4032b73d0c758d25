package stage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// EDG-01: a subscriber that is gone when its producer hears of it has arrived and left.
func TestSubscriberThatIsGone(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := idle()
		var seen log[string]
		src.OnSubscribers = func(c stage.SubscriberChange) {
			seen.add(fmt.Sprint(c.Count, " ", c.Left != nil))
		}
		r := read(t, src)
		r.Cancel(stage.Cancel[int]{})
		wait, stop := start(t, src)
		synctest.Wait()
		require.Equal(t, []string{"1 false", "0 true"}, seen.get())
		require.Empty(t, src.Inspect().Subscribers)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// EDG-03: what a source makes for somebody who has left meanwhile waits for the next one.
func TestSubscriberLeavesWhileTheSourceWorks(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		next := 0
		src := stage.NewSource(func(_ context.Context, n int) ([]int, error) {
			time.Sleep(time.Second)
			next += n
			return upTo(next-n, next), nil
		})
		wait, stop := start(t, src)
		first := read(t, src)
		require.NoError(t, first.Ask(5, 0))
		synctest.Wait()
		first.Cancel(stage.Cancel[int]{})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, first.events())
		require.Equal(t, 5, src.Inspect().Buffered)
		second := read(t, src)
		require.NoError(t, second.Ask(5, 0))
		synctest.Wait()
		require.Equal(t, upTo(0, 5), second.events())
		require.NoError(t, second.Ack(5))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// EDG-14: a source that makes what it is asked for buffers nothing and loses nothing.
func TestExactSource(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		src := counter(1000)
		src.Buffer = stage.KeepLast(0)
		src.OnDiscard = func(reason string, n int) { t.Errorf("%d: %s", n, reason) }
		a, gotA := keeper()
		b, gotB := keeper()
		stage.Connect(src, a, stage.MaxDemand(7))
		stage.Connect(src, b, stage.MaxDemand(7), stage.MinDemand(0))
		require.NoError(t, stage.Run(t.Context(), src, a, b))
		require.ElementsMatch(t, upTo(0, 1000), append(gotA.get(), gotB.get()...))
	})
}
