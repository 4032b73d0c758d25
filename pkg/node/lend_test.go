package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The stage's goroutine sends where that does not wait. A consumer that reads nothing and
// acknowledges all the same, what it cannot have, brings it to waiting no more than one
// that keeps still: the others of its outlet flow.
func TestWhoAcknowledgesUnreadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	event := make([]byte, 1<<10)
	source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
		events := make([][]byte, demand)
		for i := range events {
			events[i] = event
		}
		return events, nil
	})
	port := wire.Bytes("numbers")
	Publish(a, port, source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var got atomic.Int64
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		got.Add(int64(len(events)))
		return nil
	})
	stage.Connect(Outlet(b, port), sink)
	start(t, b, sink)

	c := dialRaw(t, a.Address())
	c.open(func(o *sluicev1.Open) { o.EventType, o.Codec, o.Granted = "[]byte", "bytes", 10 })
	var v *served[[]byte]
	eventually(t, "it is there", func() bool {
		for _, s := range a.published["numbers"].(*published[[]byte]).sessions() {
			if s.who.node == "raw" {
				v = s
			}
		}
		return v != nil
	})
	sent := func() int64 {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.core.Sent()
	}
	// Much more than gRPC has room for, if it is sent at all.
	for acked := int64(0); acked < 1000; {
		deadline := time.Now().Add(200 * time.Millisecond)
		for sent() == acked && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		now := sent()
		if now == acked {
			break // it is held up, as it should be
		}
		c.send(askFrame(now-acked, now))
		acked = now
	}
	before := got.Load()
	eventually(t, "the other one flows", func() bool { return got.Load() > before+10_000 })
	require.NoError(t, c.call.Context().Err())
}

// Nor does a producer that reads no ask, and sends as if it did: the stage's other
// subscriptions go on.
func TestWhoReadsNoAskHoldsUpNobody(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, push := pushed()
	Publish(a, wire.JSON[int]("other"), source)
	start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	granted := func() (n int64) {
		for _, i := range b.inboundAll() {
			if r := i.row(); r.GetProducerNode() == "liar" {
				n = r.GetGranted()
			}
		}
		return n
	}
	const window = 100
	done := make(chan int64, 1)
	startLiar(t, Config{Join: join(a)}, func(l *liar, s sluicev1.SubscriptionService_SubscribeServer) error {
		if _, err := l.recv(s); err != nil {
			return err
		}
		sent := int64(0)
		err := s.Send(opened(1))
		// Until what has come is not answered any more, or there is no credit.
		for idle := time.Now(); err == nil && s.Context().Err() == nil && time.Since(idle) < time.Second; {
			if granted() == sent+window {
				err = s.Send(batch(sent+1, window/2))
				sent, idle = sent+window/2, time.Now()
			}
		}
		done <- sent
		<-s.Context().Done()
		return s.Context().Err()
	})
	var others atomic.Int64
	sink := stage.NewSink(func(ctx context.Context, events []int) error {
		if about, _ := stage.Delivery(ctx); about.Publisher == "a" {
			others.Add(int64(len(events)))
		}
		return nil
	})
	stage.Connect(Outlet(b, ints), sink, stage.MaxDemand(window), stage.MinDemand(window-1), stage.Temporary)
	stage.Connect(Outlet(b, wire.JSON[int]("other")), sink)
	start(t, b, sink)
	push(1)
	eventually(t, "the other one flows", func() bool { return others.Load() == 1 })
	eventually(t, "it has asked for more than there is room for, or is held up", func() bool { return len(done) == 1 })
	require.Greater(t, <-done, int64(4000), "asks of 15 bytes, and gRPC has room for twice 64 KiB")
	push(2, 3)
	eventually(t, "the other one flows", func() bool { return others.Load() == 3 })
}
