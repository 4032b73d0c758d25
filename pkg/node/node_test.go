package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

var doubled = wire.JSON[int]("doubled")

func double(n int) int { return 2 * n }

func TestThreeNodes(t *testing.T) {
	const count = 100_000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)

	b := testNode("b", Config{Join: join(a)})
	gate := stage.NewGate(stage.Map(double))
	stage.Connect(Outlet(b, ints), gate)
	Publish(b, doubled, gate)
	runB := start(t, b, gate)

	c := testNode("c", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(c, doubled), sink)
	begin := time.Now()
	runC := start(t, c, sink)

	require.NoError(t, runA.wait())
	require.NoError(t, runB.wait())
	require.NoError(t, runC.wait())
	t.Logf("%.0f events/s", count/time.Since(begin).Seconds())
	require.Equal(t, count, got.len())
	for i, e := range got.all() {
		if e != 2*i {
			require.Equal(t, 2*i, e)
		}
	}
}
