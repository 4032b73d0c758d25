package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// heap is how many bytes are reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// 10,000 streams that are opened and left, at any point of their life: nothing stays
// behind.
func TestAbortedStreamsLeaveNothing(t *testing.T) {
	const wave, waves = 500, 20
	a := testNode("a", Config{})
	a.tuning.slack = 10 * time.Millisecond
	a.tuning.beat = time.Hour // who is left says nothing, however long this takes
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(nil)
	c.recv()
	p := a.published["numbers"].(*published[int])
	goroutines := func() int { return strings.Count(stacks(), "\ngoroutine ") }
	abort := func(first, n int) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := first; i < first+n; i++ {
			wg.Go(func() {
				call, err := sluicev1.NewSubscriptionServiceClient(c.conn).Subscribe(ctx)
				if err != nil {
					t.Errorf("Subscribe: %v", err)
					return
				}
				if i%5 == 0 {
					return // not even an Open
				}
				o := c.about()
				o.Subscriber.Stage, o.ResumeWindow = "stage "+strconv.Itoa(i), nil
				_ = call.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
				if i%3 == 0 {
					_, _ = call.Recv()
					_ = call.Send(askFrame(1+int64(i), 0))
				}
			})
		}
		wg.Wait()
		cancel()
		eventually(t, "the sessions are over", func() bool { return len(p.sessions()) == 1 })
	}
	// settled is when nobody is remembered any more either.
	settled := func() {
		eventually(t, "they are forgotten", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.purged = time.Time{}
			p.purge()
			return len(p.book) == 1
		})
	}
	base := goroutines()
	abort(0, wave)
	settled()
	before := heap()
	for i := range waves {
		if i == waves-1 {
			push(1, 2, 3) // before, they would come back too often
		}
		abort((i+1)*wave, wave)
	}
	settled()
	// One more looks.
	eventually(t, "the goroutines are where they were", func() bool { return goroutines() <= base+1 })
	eventually(t, "the heap is where it was", func() bool { return heap() < before+1<<20 })
	t.Logf("heap %d -> %d", before, heap())
	// What they were given and did not acknowledge comes to who is left.
	c.ask(10)
	seen := map[string]bool{}
	for len(seen) < 3 {
		b := c.recv().GetBatch()
		for _, e := range b.GetEvents() {
			seen[string(e)] = true
		}
	}
	require.Len(t, seen, 3)
}

// bytesOf is a node that publishes events of size bytes, as many as anybody likes, each
// in memory of its own.
func bytesOf(t *testing.T, size int, c Config) *Node {
	t.Helper()
	a := testNode("a", c)
	source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
		events := make([][]byte, min(demand, 16))
		for i := range events {
			events[i] = make([]byte, size)
		}
		return events, nil
	})
	Publish(a, wire.Bytes("numbers"), source)
	start(t, a, source)
	return a
}

// beside subscribes to bytes on a new stream of a connection.
func (c *rawClient) beside(name string) *rawClient {
	c.t.Helper()
	d := &rawClient{t: c.t, conn: c.conn, stage: name}
	d.dial()
	d.open(func(o *sluicev1.Open) { o.EventType, o.Codec = "[]byte", "bytes" })
	return d
}

// reads takes n events, and acknowledges each frame.
func (c *rawClient) reads(n int) {
	c.t.Helper()
	for got := int64(0); got < int64(n); {
		b := c.recv().GetBatch()
		got += int64(len(b.GetEvents()))
		c.send(askFrame(int64(len(b.GetEvents())), b.GetFirst()+int64(len(b.GetEvents()))-1))
	}
}

// 500 subscribers that ask for much and never read are held in memory that is bounded,
// and hold up neither one on a connection of its own nor one on theirs.
func TestCrowdThatStopsReading(t *testing.T) {
	const (
		crowd, event = 500, 16 << 10
		budget       = 16 << 20
		unacked      = 64 << 10
		// What each of them may hold beside the budget: a frame that is always sent, what
		// is given to it before the budget is used up, and what gRPC holds at both ends,
		// which are both here.
		each  = event + unacked + 2*(64<<10) + 32<<10
		limit = budget + crowd*each
	)
	a := bytesOf(t, event, Config{MaxBytes: budget, MaxUnackedBytes: unacked})
	before := heap()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + limit))
	theirs, own := dialRaw(t, a.Address()), dialRaw(t, a.Address())
	first := theirs.beside("first")
	require.NotNil(t, first.recv().GetOpened())
	first.ask(100)
	first.reads(10)
	for i := range crowd {
		theirs.beside(strconv.Itoa(i)).ask(100)
	}
	p := a.published["numbers"].(*published[[]byte])
	eventually(t, "each of them has what it can have", func() bool {
		sent := 0
		for _, v := range p.sessions() {
			v.mu.Lock()
			if v.core.Sent() > 0 {
				sent++
			}
			v.mu.Unlock()
		}
		return sent == crowd+1
	})
	reader := own.beside("reader")
	require.NotNil(t, reader.recv().GetOpened())
	reader.ask(100)
	reader.reads(100)
	first.reads(100)
	t.Logf("heap %d -> %d of %d, budget used %d", before, heap(), before+limit, a.budget.used.Load())
	require.Less(t, heap(), before+limit)
}

// Consumers that break no rule and do nothing: they hold little, hold up nobody, and are
// as they are for as long as they like.
func TestConsumersThatKeepStill(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, other := endless(), endless()
	Publish(a, ints, source)
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, source, other)
	flows := bystander(t, a)
	p := a.published["numbers"].(*published[int])
	for name, test := range map[string]struct {
		asks    []int64
		waiting int // events that are given to it and not sent
	}{
		"opening and never asking":             {nil, 0},
		"never reading":                        {[]int64{50_000}, 50_000},
		"never reading, and asking for all":    {[]int64{credit.Unbounded}, 4096},
		"never reading, and asking ever again": {[]int64{credit.Unbounded, credit.Unbounded, 1, 1 << 20}, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, a.Address())
			c.stage = name
			c.open(nil)
			for _, n := range test.asks {
				c.ask(n)
			}
			var v *served[int]
			eventually(t, "it is there", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				e := p.book[subscriber{"raw", name, dispatch.NoPartition}]
				if e == nil || e.held == nil {
					return false
				}
				v = e.held
				return true
			})
			stands := func() (sent int64, waiting int) {
				v.mu.Lock()
				defer v.mu.Unlock()
				return v.core.Sent(), int(v.waiting)
			}
			for range 3 {
				flows()
				_, waiting := stands()
				require.LessOrEqual(t, waiting, test.waiting)
			}
			if test.waiting == 4096 {
				eventually(t, "its stream is full", func() bool { _, n := stands(); return n == test.waiting })
			}
			require.NoError(t, c.call.Context().Err())
			c.gone()
		})
	}
}

// An ask for more than there will ever be takes no memory.
func TestAbsurdAskTakesNoMemory(t *testing.T) {
	a := testNode("a", Config{})
	source, _ := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	conn := dialRaw(t, a.Address())
	absurd := func(name string, n int64) *rawClient {
		c := &rawClient{t: t, conn: conn.conn, stage: name}
		c.dial()
		c.open(nil)
		require.NotNil(t, c.recv().GetOpened())
		c.ask(n)
		return c
	}
	absurd("first", 1<<62).refused(wire.RuleAskTooLarge)
	before := heap()
	for i := range 50 {
		absurd("finite "+strconv.Itoa(i), 1<<62).refused(wire.RuleAskTooLarge)
		absurd("endless "+strconv.Itoa(i), credit.Unbounded)
	}
	require.Less(t, heap(), before+4<<20)
}

// A consumer that was told that its delivery goes on waits for the rest of it, and
// acknowledges nothing before: so the rest comes, also when others have used up the
// budget meanwhile. Otherwise everybody would wait for everybody.
func TestTheBudgetCutsNoDelivery(t *testing.T) {
	t.Parallel()
	const event = 600 << 10 // one to a frame
	a := testNode("a", Config{MaxBytes: 2 * event})
	source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
		return [][]byte{make([]byte, event), make([]byte, event)}[:min(demand, 2)], nil
	})
	Publish(a, wire.Bytes("numbers"), source)
	start(t, a, source)
	p := a.published["numbers"].(*published[[]byte])
	// opens begins a subscription that has been given two events at once.
	opens := func(name string) (next func() *sluicev1.ProducerFrame) {
		o := (&rawClient{stage: name}).about()
		o.Codec, o.EventType = "bytes", "[]byte"
		s := newStream(o, time.Hour, "", "somebody")
		_, opening, err := wire.ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
		require.NoError(t, err)
		held, err := p.open(o, opening, s)
		require.NoError(t, err)
		require.NoError(t, held.frame(s, askFrame(2, 0)))
		v := held.(*served[[]byte])
		eventually(t, "it is given them", func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.waiting == 2
		})
		send := sends(t, held, s)
		next = func() *sluicev1.ProducerFrame { return send(false) }
		require.NotNil(t, next().GetOpened())
		return next
	}
	first, second := opens("first"), opens("second")
	require.True(t, first().GetBatch().GetMore(), "there is room")
	require.False(t, second().GetBatch().GetMore(), "it may be long until there is room")
	require.True(t, a.budget.spent())
	require.Nil(t, second(), "it has had something, and acknowledges it")
	b := first().GetBatch()
	require.Len(t, b.GetEvents(), 1)
	require.False(t, b.GetMore(), "now it is whole")
	p.close()
}
