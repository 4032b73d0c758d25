// Package conform holds the ways from an outlet to an inlet that there are to one
// behaviour, and the list of that behaviour to the tests that show it.
package conform

import (
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/stage/stagetest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	goleak.VerifyTestMain(m)
}

// In one process an outlet is subscribed to as it is.
func TestLocal(t *testing.T) {
	stagetest.Test(t, func(_ *testing.T, outlet stage.Outlet[int]) stage.Outlet[int] { return outlet })
}
