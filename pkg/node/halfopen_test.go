package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// A connection that goes silent, in one direction or both, and is not closed: the end that
// hears nothing finds it, and the subscription goes on over another connection, long
// before gRPC's keepalive would have found that it needs one. Others of the same
// connection follow, and it is closed.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]struct{ up, down bool }{
		"towards the producer": {true, false}, "towards the consumer": {false, true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const beat = 300 * time.Millisecond
			a, link := linked(t, "a", Config{Cluster: "half open"})
			a.tuning.beat = beat
			source, push := pushed()
			Publish(a, ints, source)
			more, pushMore := pushed()
			Publish(a, wire.JSON[int]("more"), more)
			through(t, a, link, source, more)
			b := testNode("b", Config{Cluster: "half open", Join: join(a)})
			b.tuning.beat = beat
			var got, others record
			sink, other := got.sink("sink"), others.sink("other")
			stage.Connect(Outlet(b, ints), sink)
			stage.Connect(Outlet(b, wire.JSON[int]("more")), other)
			start(t, b, sink, other)
			push(0)
			pushMore(0)
			eventually(t, "both flow", func() bool { return got.len() == 1 && others.len() == 1 })
			require.Equal(t, 1, link.Open(), "over one connection")

			link.Freeze(dead.up, dead.down)
			begin := time.Now()
			push(1)
			pushMore(1)
			eventually(t, "both flow on", func() bool {
				return got.len() == 2 && others.len() == 2 && link.Accepted() > 1
			})
			t.Logf("after %v", time.Since(begin))
			require.Less(t, time.Since(begin), wire.Silence(beat)+openTimeout/2, "no answer is waited for in vain, let alone keepalive")
			link.Heal() // what comes late changes nothing
			eventually(t, "the old one is closed", func() bool { return link.Open() == 1 })
			push(2)
			pushMore(2)
			eventually(t, "both flow on", func() bool { return got.len() == 3 && others.len() == 3 })
			got.inOrder(t, 3)
			others.inOrder(t, 3)
		})
	}
}

// A connection on which an Open is not answered is not used again.
func TestUnansweredConnectionIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, _ := pushed()
		l := newLab(t, source)
		conn := l.pipe(grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			<-s.Context().Done()
			return nil
		})), func() {})
		l.b.peers.conns = map[string]*connection{"": {ClientConn: conn, made: time.Now()}}
		tries := 0
		l.b.tuning.subscribe = func(ctx context.Context, p *peers, at string) (sluicev1.SubscriptionService_SubscribeClient, error) {
			if tries++; tries > 1 {
				return nil, errors.New("once is enough")
			}
			return subscribe(ctx, p, at)
		}
		over := make(chan struct{})
		go func() { defer close(over); l.in.first(l.b.ctx) }()
		time.Sleep(openTimeout - time.Second)
		require.Equal(t, connectivity.Ready, conn.GetState())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, l.b.peers.conns)
		require.Equal(t, connectivity.Shutdown, conn.GetState(), "nothing else used it")
		l.b.cut(errStopped)
		<-over
	})
}

// A connection that is forgotten stays open for what uses it. What was begun before
// another one was made says nothing of that, and one that is still sought is left alone.
func TestForget(t *testing.T) {
	t.Parallel()
	n := testNode("a", Config{})
	start(t, n)
	dial := func(address string) (*grpc.ClientConn, func()) {
		conn, done, err := n.peers.dial(address)
		require.NoError(t, err)
		return conn, done
	}
	ready := func(conn *grpc.ClientConn) {
		conn.Connect()
		eventually(t, "it connects", func() bool { return conn.GetState() == connectivity.Ready })
	}
	first, done := dial(n.address)
	ready(first)
	began := time.Now()
	n.peers.forget(n.address, began)
	second, again := dial(n.address)
	require.NotSame(t, first, second)
	ready(second)
	require.Equal(t, connectivity.Ready, first.GetState(), "something uses it")
	done()
	require.Equal(t, connectivity.Shutdown, first.GetState())
	n.peers.forget(n.address, began)
	same, more := dial(n.address)
	require.Same(t, second, same)
	again()
	more()
	n.peers.forget(n.address, time.Now())
	require.Equal(t, connectivity.Shutdown, second.GetState())

	nowhere, done := dial("127.0.0.1:1")
	n.peers.forget("127.0.0.1:1", time.Now())
	same, more = dial("127.0.0.1:1")
	require.Same(t, nowhere, same)
	done()
	more()
}
