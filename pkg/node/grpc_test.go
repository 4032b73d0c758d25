package node

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// G1: a client that pings more often than its server allows is cut off after three
// pings, also on a stream that is only silent.
func TestKeepaliveIsOnePair(t *testing.T) {
	t.Parallel()
	k := newTuning().keepalive
	pings, policy := k.server()
	client := k.client()
	const floor = 10 * time.Second // of grpc-go, below which a client does not go
	require.GreaterOrEqual(t, max(client.Time, floor), policy.MinTime)
	require.GreaterOrEqual(t, client.Time, floor, "what is set is what happens")
	require.True(t, policy.PermitWithoutStream)
	require.True(t, client.PermitWithoutStream)
	require.Zero(t, pings.MaxConnectionAge, "it would cut streams that nothing is wrong with")
	require.Zero(t, pings.MaxConnectionIdle)
	// The producer's window outlasts the consumer's by more than a break takes to be
	// noticed.
	require.Greater(t, newTuning().slack, wire.Silence(newTuning().beat))
}

// A connection outlives pings at the shortest interval that gRPC allows, with an idle
// stream on it and with none. It is gRPC's own time that passes here.
func TestIdleConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		dials := 0
		l.b.tuning.keepalive.every = time.Second // raised to 10 s by gRPC
		conn := l.pipe(l.a.newServer(), func() { dials++ })
		conn.Connect()
		time.Sleep(time.Minute) // six pings, where three too many end a connection
		l.b.tuning.subscribe = func(ctx context.Context, _ *peers, _ string) (sluicev1.SubscriptionService_SubscribeClient, error) {
			return sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
		}
		over := make(chan struct{})
		go func() { defer close(over); l.in.first(l.b.ctx) }()
		require.NoError(t, l.in.Ask(10, 0))
		push(0)
		l.arrived(1)
		time.Sleep(time.Minute)
		push(1)
		l.arrived(2)
		require.Empty(t, over)
		require.Equal(t, 1, dials, "it is the same connection")
		l.b.cut(errStopped)
		<-over
	})
}

// pipe is a connection of the consumer's to a server, in memory. dialed is called
// whenever it is made.
func (l *lab) pipe(server *grpc.Server, dialed func()) *grpc.ClientConn {
	l.t.Helper()
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	conn, err := l.b.peers.connect("a", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		dialed()
		return listener.DialContext(ctx)
	}))
	require.NoError(l.t, err)
	l.t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	return conn
}

// G4: GracefulStop waits for open streams for ever. Stop does not.
func TestStopWhileStreamsAreOpen(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	running := start(t, a, source)

	// A tap, a consumer that acknowledges nothing, and one that does not even read.
	c := dialRaw(t, a.Address())
	c.open(nil)
	c.recv()
	c.ask(10)
	tap, err := sluicev1.NewAdminServiceClient(c.conn).Tap(t.Context(), &sluicev1.TapRequest{Outlet: "numbers"})
	require.NoError(t, err)
	_, err = tap.Header() // it is tapped: what is asked for from now on is seen
	require.NoError(t, err)
	silent := dialRaw(t, a.Address())
	silent.open(func(o *sluicev1.Open) { o.Subscriber.Stage = "other" })
	silent.ask(1 << 20)
	_, err = tap.Recv()
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	err = a.Stop(ctx)
	require.ErrorIs(t, err, stage.ErrDrainTimeout)
	require.ErrorContains(t, err, `node "a"`)
	require.Less(t, time.Since(begin), 5*time.Second)
	running.stop()
	running.wait()
	require.ErrorContains(t, c.end(), "stopped")
	// What the consumers had goes back, and is counted: nothing is dropped silently.
	require.NotZero(t, source.Inspect().Discarded[stage.DiscardEnded])
}

// Stop while events flow: the source ends, what it produced is processed, both ends
// end well.
func TestStopWhileFlowing(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	runA := start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, ints), sink, stage.ResumeWindow(time.Second)) // nobody else comes
	runB := start(t, b, sink)
	eventually(t, "it flows", func() bool { return got.len() > 10_000 })
	runA.stop()
	require.ErrorIs(t, runA.wait(), context.Canceled)
	require.NoError(t, runB.wait())
	got.inOrder(t, got.len())
	info := source.Inspect()
	require.EqualValues(t, info.Out, got.len()+int(sum(info.Discarded)), "each event was processed, or counted as discarded")
}

func sum(m map[string]int64) (n int64) {
	for _, x := range m {
		n += x
	}
	return n
}

// Stop of the consumer's node while events flow: what it had goes to another one.
func TestStopConsumerWhileFlowing(t *testing.T) {
	t.Parallel()
	const count = 100_000
	a := testNode("a", Config{})
	source := numbers(count)
	Publish(a, ints, source)
	runA := start(t, a, source)
	var got [2]record
	b := testNode("b", Config{Join: join(a)})
	sink := got[0].sink("sink")
	stage.Connect(Outlet(b, ints), sink)
	runB := start(t, b, sink)
	eventually(t, "it flows", func() bool { return got[0].len() > 1000 })
	runB.stop()
	begin := time.Now()
	require.ErrorIs(t, runB.wait(), context.Canceled)
	require.Less(t, time.Since(begin), 5*time.Second)

	c := testNode("c", Config{Join: join(a)})
	sink = got[1].sink("sink")
	stage.Connect(Outlet(c, ints), sink)
	runC := start(t, c, sink)
	require.NoError(t, runA.wait())
	require.NoError(t, runC.wait())
	once(t, count, &got[0], &got[1])
}

func stacks() string {
	buf := make([]byte, 16<<20)
	return "\n" + string(buf[:runtime.Stack(buf, true)])
}

// A panic in a call ends the call.
func TestPanicInACall(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	a.stages = []stage.Inspector{badInspector{}}
	start(t, a)
	c := dialRaw(t, a.Address())
	_, err := sluicev1.NewAdminServiceClient(c.conn).ListStages(t.Context(), &sluicev1.ListStagesRequest{})
	require.Equal(t, codes.Internal, status.Code(err), err)
	_, err = sluicev1.NewAdminServiceClient(c.conn).ListNodes(t.Context(), &sluicev1.ListNodesRequest{})
	require.NoError(t, err, "the node lives")
}

type badInspector struct{}

func (badInspector) Inspect() stage.Info    { panic("no") }
func (badInspector) Ended() <-chan struct{} { return nil }
