package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/wire"
)

// warned is a log that keeps which outlets have no stage that runs.
type warned struct {
	slog.Handler
	outlets chan string
}

func (w warned) Enabled(context.Context, slog.Level) bool { return true }
func (w warned) WithAttrs([]slog.Attr) slog.Handler       { return w }

func (w warned) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "a stage that is published does not run" {
		said := map[string]string{}
		r.Attrs(func(a slog.Attr) bool { said[a.Key] = a.Value.String(); return true })
		if r.Level == slog.LevelWarn && said["why"] != "" && said["hint"] != "" {
			w.outlets <- said["outlet"]
		}
	}
	return nil
}

// A stage that is published and that nobody runs keeps its subscribers waiting: that is
// said, once, by the name of the outlet, also of one that is published later. Of those
// that run, and that run in time, nothing is said.
func TestUnrunStageIsSaid(t *testing.T) {
	t.Parallel()
	log := warned{slog.DiscardHandler, make(chan string, 10)}
	a := testNode("a", Config{Logger: slog.New(log)})
	a.tuning.unrun = 10 * time.Millisecond
	runs, _ := pushed()
	Publish(a, ints, runs)
	never, _ := pushed()
	Publish(a, wire.JSON[int]("never"), never)
	start(t, a, runs)
	said := func() string {
		for {
			a.cluster.poke() // it looks every second by itself
			select {
			case outlet := <-log.outlets:
				return outlet
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	require.Equal(t, "never", said())
	late, _ := pushed()
	Publish(a, wire.JSON[int]("late"), late)
	require.Equal(t, "late", said())
	again, _ := pushed()
	Publish(a, wire.JSON[int]("last"), again)
	require.Equal(t, "last", said(), "each once, and none that runs")
	require.Empty(t, log.outlets)
}

// A stage that is run within the time is none of these.
func TestStageThatRunsLateIsNotSaid(t *testing.T) {
	t.Parallel()
	log := warned{slog.DiscardHandler, make(chan string, 10)}
	p := &published[int]{n: testNode("a", Config{Logger: slog.New(log)}), port: ints}
	p.n.tuning.unrun = time.Hour
	source, _ := pushed()
	p.outlet = source
	p.noticeUnrun()
	p.noticeUnrun()
	require.Empty(t, log.outlets, "not yet")
	p.run.since = time.Now().Add(-2 * time.Hour)
	start(t, testNode("b", Config{}), source)
	eventually(t, "it runs", func() bool { return source.Inspect().State == "running" })
	p.noticeUnrun()
	require.Empty(t, log.outlets)
	require.True(t, p.run.looked)
}
