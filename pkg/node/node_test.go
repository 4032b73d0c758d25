package node_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/node"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// numbers is a source of 0 to n-1.
func numbers(n int) *stage.Source[int] {
	next := 0
	return stage.NewSource(func(_ context.Context, demand int) ([]int, error) {
		events := make([]int, 0, demand)
		for len(events) < demand && next < n {
			events = append(events, next)
			next++
		}
		if next == n {
			return events, io.EOF
		}
		return events, nil
	})
}

// start runs a node with its stages, and returns how it ended.
func start(t *testing.T, n *node.Node, stages ...stage.Runner) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { done <- stage.Run(ctx, append([]stage.Runner{n}, stages...)...) }()
	require.Eventually(t, func() bool { return n.GossipAddress() != "" }, 5*time.Second, time.Millisecond)
	return done
}

func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		require.Fail(t, "it did not end")
		return nil
	}
}

func TestThreeNodes(t *testing.T) {
	const count = 300_000
	a := node.New(node.Config{Name: "a", Cluster: "test"})
	source := numbers(count)
	node.Publish(a, wire.JSON[int]("numbers"), source)
	doneA := start(t, a, source)

	b := node.New(node.Config{Name: "b", Cluster: "test", Join: []string{a.GossipAddress()}})
	gate := stage.NewGate(stage.Map(func(n int) int { return 2 * n }))
	stage.Connect(node.Outlet(b, wire.JSON[int]("numbers")), gate)
	node.Publish(b, wire.JSON[int]("doubled"), gate)
	doneB := start(t, b, gate)

	c := node.New(node.Config{Name: "c", Cluster: "test", Join: []string{a.GossipAddress()}})
	got := 0
	sink := stage.NewSink(func(_ context.Context, events []int) error {
		for _, e := range events {
			if e != 2*got {
				return fmt.Errorf("got %d, want %d", e, 2*got)
			}
			got++
		}
		return nil
	})
	stage.Connect(node.Outlet(c, wire.JSON[int]("doubled")), sink)
	begin := time.Now()
	doneC := start(t, c, sink)

	require.NoError(t, ended(t, doneA))
	require.NoError(t, ended(t, doneB))
	require.NoError(t, ended(t, doneC))
	require.Equal(t, count, got)
	t.Logf("%.0f events/s", count/time.Since(begin).Seconds())
}
