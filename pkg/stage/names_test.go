package stage_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// SUP-02: a name is one stage's until that has ended, and who comes second is refused
// and changes nothing.
func TestNames(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		first, second := counter(3), counter(5)
		first.Name, second.Name = "numbers", "numbers"
		numbers := stage.Named[int](&names, "numbers")
		require.Equal(t, "numbers", numbers.OutletName())
		require.Nil(t, numbers.Done())
		_, err := numbers.Attach(stage.Terms{Partition: dispatch.NoPartition}, &reader{})
		require.ErrorIs(t, err, stage.ErrNoSuchName)
		require.ErrorContains(t, err, `"numbers"`)

		require.NoError(t, stage.Register(&names, first))
		require.NoError(t, stage.Register(&names, first), "it has it already")
		err = stage.Register(&names, second)
		require.ErrorIs(t, err, stage.ErrNameTaken)
		require.ErrorContains(t, err, `"numbers"`)

		wait, _ := start(t, first)
		r := read(t, numbers)
		require.ErrorIs(t, stage.Register(&names, second), stage.ErrNameTaken)
		require.NoError(t, r.Ask(9, 0))
		synctest.Wait()
		require.Equal(t, upTo(0, 3), r.events())
		require.NoError(t, r.Ack(3))
		require.NoError(t, wait())

		_, err = numbers.Attach(stage.Terms{Partition: dispatch.NoPartition}, &reader{})
		require.ErrorIs(t, err, stage.ErrEnded)
		require.NoError(t, stage.Register(&names, second))
		wait, _ = start(t, second)
		r = read(t, numbers)
		require.NoError(t, r.Ask(9, 0))
		synctest.Wait()
		require.Equal(t, upTo(0, 5), r.events())
		require.NoError(t, r.Ack(5))
		require.NoError(t, wait())
	})
}

// SUP-05: whoever asks for a name that nobody has, or for other events, is told so, when
// the subscription is made; the stage fails, and nobody else.
func TestNamesThatAreNotThere(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		text := stage.FromChan(words("a b c"))
		text.Name = "text"
		require.NoError(t, stage.Register(&names, text))
		for _, name := range []string{"nobody", "text"} {
			sink, _ := keeper()
			stage.Connect(stage.Named[int](&names, name), sink)
			require.ErrorIs(t, sink.Run(t.Context()), stage.ErrNoSuchName)
			other, _ := keeper()
			wait, stop := start(t, other)
			synctest.Wait()
			_, err := stage.Subscribe(t.Context(), stage.Named[int](&names, name), other)
			require.ErrorIs(t, err, stage.ErrNoSuchName)
			require.Equal(t, "running", other.Inspect().State)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		}
	})
}

// A part of a named outlet, and a name for a part of one.
func TestNamesAndSelectors(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		src := counter(40)
		src.Name, src.Dispatcher = "numbers", dispatch.Broadcast[int]()
		even := stage.Where[int](src, func(i int) bool { return i%2 == 0 })
		require.NoError(t, stage.Register(&names, even))
		sink, got := keeper()
		third := stage.Where(stage.Named[int](&names, "numbers"), func(i int) bool { return i%3 == 0 })
		stage.Connect(third, sink, stage.MaxDemand(3))
		require.NoError(t, stage.Run(t.Context(), src, sink))
		require.Equal(t, []int{0, 6, 12, 18, 24, 30, 36}, got.get())
	})
}

// odd is an outlet of a user's own that cannot be compared.
type odd struct {
	stage.Outlet[int]
	_ []int
}

func TestNamesOfOutletsOfAUsersOwn(t *testing.T) {
	var names stage.Names
	src := counter(1)
	src.Name = "odd"
	require.NoError(t, stage.Register[int](&names, odd{Outlet: src}))
	require.ErrorIs(t, stage.Register[int](&names, odd{Outlet: src}), stage.ErrNameTaken)
	// A source cannot end with it, in whatever family: it is not one of its stages.
	sink, got := keeper()
	stage.Connect(stage.Named[int](&names, "odd"), sink)
	sup := stage.Supervise(stage.OneForOne, func() stage.Runner { return src }, func() stage.Runner { return sink })
	require.NoError(t, sup.Run(t.Context()))
	require.Equal(t, []int{0}, got.get())
}

// The stages of a Run that could not start have ended: their names are free.
func TestNamesOfWhatDidNotStart(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		for range 3 {
			g := stage.NewGate(stage.Map(double))
			g.Name = "gate"
			require.NoError(t, stage.Register(&names, g))
			sink, _ := keeper()
			stage.Connect(stage.Named[int](&names, "nobody"), sink)
			require.ErrorIs(t, stage.Run(t.Context(), sink, g), stage.ErrNoSuchName)
			require.Equal(t, "ended", g.Inspect().State)
		}
	})
}
