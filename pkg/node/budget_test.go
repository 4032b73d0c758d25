package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// logText is a log to be looked into.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// When the budget of the node is used up, each subscription has had a frame, nothing is
// refused, everybody is told why, and what is acknowledged lets the next ones go on.
func TestTheByteBudgetOfANode(t *testing.T) {
	t.Parallel()
	const event, budget, peers = 64 << 10, 256 << 10, 8
	var log logText
	a := testNode("a", Config{MaxBytes: budget, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) { return [][]byte{make([]byte, event)}, nil })
	Publish(a, wire.Bytes("numbers"), source)
	start(t, a, source)
	conn, err := grpc.NewClient("passthrough:///"+a.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	clients := make([]*rawClient, peers)
	for i := range clients {
		c := &rawClient{t: t, conn: conn, stage: fmt.Sprint("stage ", i)}
		c.dial()
		c.open(func(o *sluicev1.Open) { o.EventType, o.Codec = "[]byte", "bytes" })
		require.NotNil(t, c.recv().GetOpened())
		c.ask(100)
		require.Len(t, c.recv().GetBatch().GetEvents(), 1, "also behind those who have used it up")
		clients[i] = c
	}
	rows := func(state string) (n int) {
		for _, row := range a.published["numbers"].rows() {
			if row.GetState() == state {
				require.Contains(t, row.GetReason(), fmt.Sprintf("the node's byte budget (%d) is used up", budget))
				n++
			}
		}
		return n
	}
	eventually(t, "all of them pause", func() bool { return rows("paused") == peers })
	require.LessOrEqual(t, a.budget.used.Load(), int64(budget+peers*event))
	require.Equal(t, 1, log.count("byte budget"), "said once")
	require.GreaterOrEqual(t, a.budget.pauses.Load(), int64(peers))

	// Whoever acknowledges gets more, for as long as anybody likes.
	for range 5 {
		for _, c := range clients {
			b := a.published["numbers"].(*published[[]byte])
			held := b.book[subscriber{node: "raw", stage: c.stage, partition: -1}].held
			held.mu.Lock()
			sent := held.core.Sent()
			held.mu.Unlock()
			c.send(ackFrame(sent))
			require.NotEmpty(t, c.recv().GetBatch().GetEvents())
		}
		require.LessOrEqual(t, a.budget.used.Load(), int64(budget+2*peers*event))
	}

	// Who is gone has nothing any more, and the line moves on without it.
	for _, c := range clients[1:] {
		c.send(cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0))
		for {
			if f, err := c.call.Recv(); err != nil || f.GetEnd() != nil {
				break
			}
		}
	}
	_ = clients[0].recv()
	clients[0].gone()
	p := a.published["numbers"].(*published[[]byte])
	for _, c := range clients {
		c.gone()
	}
	eventually(t, "nobody is left", func() bool { return len(p.sessions()) == 0 })
	require.Zero(t, a.budget.used.Load(), "all is accounted for")
	require.Empty(t, a.guests.here)
}

// A budget that is far too small costs speed and nothing else: deliveries that are cut,
// of several stages, arrive whole.
func TestFlowUnderATightBudget(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{MaxBytes: 1 << 10})
	source := numbers(2_000)
	Publish(a, ints, source)
	runA := start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	records := make([]record, 5)
	runners := make([]stage.Runner, len(records))
	for i := range records {
		sink := records[i].sink(fmt.Sprint("sink ", i))
		stage.Connect(Outlet(b, ints), sink, stage.MaxDemand(100))
		runners[i] = sink
	}
	runB := start(t, b, runners...)
	require.NoError(t, runB.wait())
	require.NoError(t, runA.wait())
	all := make([]*record, len(records))
	for i := range records {
		all[i] = &records[i]
	}
	once(t, 2_000, all...)
	require.Zero(t, a.budget.used.Load())
}

// The line is first come, first served; it passes over those who have left, and whoever
// has its turn lets the next one go on.
func TestLineOfTheBudget(t *testing.T) {
	t.Parallel()
	b := &budget{max: 10, log: slog.New(slog.DiscardHandler)}
	b.take(10)
	var line []*stream
	for range 4 {
		s := newStream(&sluicev1.Open{}, wire.DefaultHeartbeat, "", "")
		line = append(line, s)
		b.wait(s)
		b.wait(s) // who stands in line stands there once
	}
	poked := func() (n int) {
		for _, s := range line {
			select {
			case <-s.wake:
				n++
			default:
			}
		}
		return n
	}
	b.next()
	require.Zero(t, poked())
	line[1].close(nil)
	b.free(5)
	require.Len(t, line[0].wake, 1)
	require.Equal(t, 1, poked())
	b.next()
	require.Len(t, line[2].wake, 1, "the one that has left is passed over")
	require.Equal(t, 1, poked())
	b.take(5)
	b.next()
	require.Zero(t, poked())
	b.free(6)
	require.Equal(t, 1, poked())
	require.Zero(t, b.waiting.Load())
	require.EqualValues(t, 1, b.episodes.Load())
	b.wait(line[0]) // there is room already
	require.Equal(t, 1, poked())
	require.EqualValues(t, 2, b.episodes.Load(), "half of it was free in between")
}

// A peer has so many subscriptions and no more, those whose connection broke included.
func TestSubscriptionsOfAPeerAreBounded(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{MaxSubscriptions: 3})
	a.tuning.slack = time.Second
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	var clients []*rawClient
	for i := range 3 {
		c := dialRaw(t, a.Address())
		c.stage = fmt.Sprint(i)
		c.open(nil)
		require.NotNil(t, c.recv().GetOpened())
		clients = append(clients, c)
	}
	more := func() *rawClient {
		c := dialRaw(t, a.Address())
		c.stage = "more"
		c.open(nil) // the same attempt, since none was accepted
		return c
	}
	more().refused(wire.RuleTooManySubscriptions)
	require.True(t, wire.RuleTooManySubscriptions.Retryable())
	p := a.published["numbers"].(*published[int])
	clients[0].gone()
	eventually(t, "its connection is gone", func() bool {
		return p.sessions()[0].detached() || p.sessions()[1].detached() || p.sessions()[2].detached()
	})
	more().refused(wire.RuleTooManySubscriptions)
	// Who has it already goes on with it.
	clients[0].dial()
	clients[0].open(func(o *sluicev1.Open) { o.Attempt, o.Known = 2, true })
	require.NotNil(t, clients[0].recv().GetOpened())
	// One that ends makes room.
	clients[1].send(cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0))
	require.NotNil(t, clients[1].recv().GetEnd())
	require.NoError(t, clients[1].call.CloseSend())
	require.Error(t, clients[1].end())
	require.NotNil(t, more().recv().GetOpened())

	// Streams that are not opened are bounded by themselves.
	silent := make([]*rawClient, 3)
	for i := range silent {
		silent[i] = dialRaw(t, a.Address())
		require.NoError(t, silent[i].call.Context().Err())
	}
	eventually(t, "they have arrived", func() bool {
		a.guests.mu.Lock()
		defer a.guests.mu.Unlock()
		return a.guests.here["127.0.0.1"].opening == 3
	})
	dialRaw(t, a.Address()).refused(wire.RuleTooManySubscriptions)
}
