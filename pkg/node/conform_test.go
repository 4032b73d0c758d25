package node

import (
	"testing"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/stage/stagetest"
)

// Two nodes, and a gRPC stream over the loopback between them.
func TestConform(t *testing.T) {
	stagetest.Test(t, func(t *testing.T, outlet stage.Outlet[int]) stage.Outlet[int] {
		a := testNode("a", Config{})
		Publish(a, ints, outlet)
		start(t, a)
		b := testNode("b", Config{Join: join(a)})
		out := Outlet(b, ints)
		start(t, b)
		return out
	}, stagetest.OnAWire)
}
