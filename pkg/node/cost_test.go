package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// costs are what a subscription may use, counted and never timed: so they hold on every
// machine and under load. Both ends are in one process. Who makes something dearer on
// purpose raises its bounds here and says why in the commit; who makes it cheaper lowers
// them. `go test -run TestCost -v ./pkg/node` prints the figures.
//
// The race detector makes pools forget and stacks larger: so it has bounds of its own.
var costs = map[string]struct{ bound, raced float64 }{
	// For each thousand events of 8 to 100 bytes, with a demand of 1000/750: an ask for
	// each batch of the handler, and what the source is asked for in one frame or more.
	"allocations":            {80, 200},
	"frames to the consumer": {4.2, 4.2},
	"frames to the producer": {4.2, 4.2},
	"writes":                 {10, 12},
	"reads":                  {10, 12},
	// For each subscription that is idle, at both ends and its sink included.
	// Stacks are two thirds of its memory.
	"goroutines": {8.1, 8.1},
	"KiB":        {72, 120},
}

// raced says whether the race detector watches.
var raced = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

func bound(what string) float64 {
	if raced {
		return costs[what].raced
	}
	return costs[what].bound
}

// affordable checks a figure. One that is nothing was not measured.
func affordable(t *testing.T, what string, got float64) {
	t.Helper()
	t.Logf("%-24s %7.2f of %.1f", what, got, bound(what))
	require.Positive(t, got, what)
	require.LessOrEqual(t, got, bound(what), what)
}

// usage is what has been used so far.
type usage struct {
	allocations uint64
	down, up    int64 // frames
	writes      int64
	reads       int64
}

// counters count what passes between two nodes.
type counters struct{ down, up, writes, reads atomic.Int64 }

func (c *counters) now() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{m.Mallocs, c.down.Load(), c.up.Load(), c.writes.Load(), c.reads.Load()}
}

// watch lets the streams of b lead to a, which runs, over connections that are counted at
// both ends.
func (c *counters) watch(t *testing.T, a, b *Node) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := a.newServer()
	go func() { _ = server.Serve(countedListener{listener, c}) }()
	conn, err := b.peers.connect("a", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		return countedConn{conn, c}, err
	}))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	b.tuning.subscribe = func(ctx context.Context, _ *peers, _ string) (sluicev1.SubscriptionService_SubscribeClient, error) {
		call, err := sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
		return countedCall{call, c}, err
	}
}

type countedListener struct {
	net.Listener
	c *counters
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{conn, l.c}, nil
}

type countedConn struct {
	net.Conn
	c *counters
}

func (c countedConn) Read(b []byte) (int, error) {
	c.c.reads.Add(1)
	return c.Conn.Read(b)
}

func (c countedConn) Write(b []byte) (int, error) {
	c.c.writes.Add(1)
	return c.Conn.Write(b)
}

type countedCall struct {
	sluicev1.SubscriptionService_SubscribeClient
	c *counters
}

func (c countedCall) SendMsg(m any) error {
	c.c.up.Add(1)
	return c.SubscriptionService_SubscribeClient.SendMsg(m)
}

func (c countedCall) RecvMsg(m any) error {
	err := c.SubscriptionService_SubscribeClient.RecvMsg(m)
	c.c.down.Add(1)
	return err
}

func TestCostOfAnEvent(t *testing.T) {
	const warm, thousands = 100_000, 400
	for _, size := range []int{8, 100} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			port := wire.Bytes("numbers")
			event := make([]byte, size)
			var enough atomic.Bool
			source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
				if enough.Load() {
					return nil, io.EOF
				}
				events := make([][]byte, demand)
				for i := range events {
					events[i] = event
				}
				return events, nil
			})
			a := testNode("a", Config{})
			Publish(a, port, source)
			runA := start(t, a, source)

			b := testNode("b", Config{Join: join(a)})
			var c counters
			c.watch(t, a, b)
			var before, after usage
			seen := 0
			sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
				was := seen
				seen += len(events)
				if was < warm && seen >= warm {
					before, seen = c.now(), warm
				}
				if was < warm+1000*thousands && seen >= warm+1000*thousands {
					after = c.now()
					enough.Store(true)
				}
				return nil
			})
			stage.Connect(Outlet(b, port), sink)
			runB := start(t, b, sink)
			require.NoError(t, runA.wait())
			require.NoError(t, runB.wait())
			affordable(t, "frames to the consumer", float64(after.down-before.down)/thousands)
			affordable(t, "frames to the producer", float64(after.up-before.up)/thousands)
			affordable(t, "writes", float64(after.writes-before.writes)/thousands)
			affordable(t, "reads", float64(after.reads-before.reads)/thousands)
			affordable(t, "allocations", float64(after.allocations-before.allocations)/thousands)
		})
	}
}

// held is how many bytes the process holds for what is reachable, and for stacks.
func held() float64 {
	var m runtime.MemStats
	runtime.GC() // stacks shrink
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// settled is affordable for a figure that comes down to what it is.
func settled(t *testing.T, what string, now func() float64) {
	t.Helper()
	got := now()
	for begin := time.Now(); got > bound(what) && time.Since(begin) < patience/4; got = now() {
		time.Sleep(10 * time.Millisecond)
	}
	affordable(t, what, got)
}

func TestCostOfAnIdleSubscription(t *testing.T) {
	const n = 200
	a := testNode("a", Config{})
	source, _ := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	idle := func(i int) stage.Runner {
		sink := stage.NewSink(func(context.Context, []int) error { return nil })
		sink.Name = fmt.Sprint("sink ", i)
		stage.Connect(Outlet(b, ints), sink)
		return sink
	}
	start(t, b, idle(0))
	p := a.published["numbers"].(*published[int])
	open := func(n int) {
		t.Helper()
		eventually(t, "the subscriptions are there", func() bool { return len(p.sessions()) == n })
	}
	open(1)
	before, goroutines := held(), runtime.NumGoroutine()

	all := make([]stage.Runner, n)
	for i := range all {
		all[i] = idle(i + 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- stage.Run(ctx, all...) }()
	open(1 + n)
	settled(t, "goroutines", func() float64 { return float64(runtime.NumGoroutine()-goroutines) / n })
	settled(t, "KiB", func() float64 { return (held() - before) / 1024 / n })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}
