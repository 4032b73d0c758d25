package node

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
