package stage_test

import (
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind. The warnings of stages that discard are not for
// whoever reads the output of a test.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	goleak.VerifyTestMain(m)
}
