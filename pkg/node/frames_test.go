package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// blobs is a source of these events, handed out as they are asked for.
func blobs(all ...[]byte) *stage.Source[[]byte] {
	return stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
		n := min(demand, len(all))
		events := all[:n]
		all = all[n:]
		if len(all) == 0 {
			return events, io.EOF
		}
		return events, nil
	})
}

// discards counts what a source gives up, by reason.
type discards struct {
	mu sync.Mutex
	by map[string]int
}

func (d *discards) add(reason string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[string]int{}
	}
	d.by[reason] += n
}

func (d *discards) get(reason string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[reason]
}

// G5: no frame passes the limit of its receiver. Deliveries are cut by bytes and joined
// again, an event that no frame takes is discarded by name, and the rest flows.
func TestFramesAndTheirLimit(t *testing.T) {
	t.Parallel()
	sizes := []int{
		0, 1, 100, frameRoom - 100, frameRoom, frameRoom + 1, 3 << 20, 1, 5 << 20, 2, maxFrame, 3,
		maxFrame - 200, 4, maxFrame - 50, 600 << 10, 600 << 10, 600 << 10, 5, 5 << 20, 5 << 20, 6,
	}
	var want [][]byte
	var all [][]byte
	tooLarge := 0
	for i, n := range sizes {
		e := bytes.Repeat([]byte{byte('a' + i)}, n)
		all = append(all, e)
		if n > maxFrame-128 {
			tooLarge++
		} else {
			want = append(want, e)
		}
	}
	a := testNode("a", Config{})
	source := blobs(all...)
	var gone discards
	source.OnDiscard = gone.add
	port := wire.Bytes("blobs")
	Publish(a, port, source)
	runA := start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var got [][]byte
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		for _, e := range events {
			got = append(got, bytes.Clone(e))
		}
		return nil
	})
	stage.Connect(Outlet(b, port), sink)
	runB := start(t, b, sink)
	require.NoError(t, runB.wait())
	require.NoError(t, runA.wait())
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), "event %d", i)
	}
	require.Equal(t, tooLarge, gone.get(DiscardTooLarge), "and its stage is told")
	require.EqualValues(t, tooLarge, source.Inspect().Discarded[DiscardTooLarge])
}

// An event that no frame takes at the end of a delivery holds up nothing of what came
// before it, whether the outlet goes on, is idle, or ends.
func TestTooLargeAtTheEnd(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := stage.NewSource[[]byte](nil)
	var gone discards
	source.OnDiscard = gone.add
	port := wire.Bytes("blobs")
	Publish(a, port, source)
	runA := start(t, a, source)
	b := testNode("b", Config{Join: join(a)})
	var got atomic.Int64
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		got.Add(int64(len(events)))
		return nil
	})
	sub := stage.Connect(Outlet(b, port), sink)
	runB := start(t, b, sink)
	require.NoError(t, sub.Ready(t.Context()))
	huge := make([]byte, 5<<20)
	require.NoError(t, source.Push([]byte("a"), []byte("b"), huge))
	eventually(t, "what came before it is handled", func() bool { return got.Load() == 2 })
	require.NoError(t, source.Push([]byte("c"), huge, huge))
	source.Finish()
	require.NoError(t, runA.wait())
	require.NoError(t, runB.wait())
	require.EqualValues(t, 3, got.Load())
	require.Equal(t, 3, gone.get(DiscardTooLarge))
}

// What is cut says that it goes on, and every frame keeps to what its receiver takes.
func TestBatchesAreCutByBytes(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	var all [][]byte
	for range 100 {
		all = append(all, make([]byte, 50<<10))
	}
	source := blobs(all...)
	Publish(a, wire.Bytes("numbers"), source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	const limit = 200 << 10
	c.open(func(o *sluicev1.Open) { o.EventType, o.Codec, o.MaxFrameBytes = "[]byte", "bytes", limit })
	require.EqualValues(t, maxAsked, c.recv().GetOpened().GetMaxFrameBytes())
	c.ask(100)
	frames := c.events(100)
	require.Greater(t, len(frames), 20)
	next := int64(1)
	for i, f := range frames {
		size := 0
		for _, e := range f.GetEvents() {
			size += len(e)
		}
		require.LessOrEqual(t, size, limit)
		require.Equal(t, next, f.GetFirst(), "positions follow each other")
		next += int64(len(f.GetEvents()))
		require.Equal(t, i < len(frames)-1, f.GetMore(), "frame %d of %d", i+1, len(frames))
	}
	c.send(ackFrame(100))
	require.EqualValues(t, 100, c.recv().GetEnd().GetLast())
}

// A delivery that was cut, and whose stream breaks in the middle, is not lost: what has
// come counts as received, and is handed over.
func TestCutInTheMiddleOfADelivery(t *testing.T) {
	t.Parallel()
	r := random(t)
	const count = 120
	var all [][]byte
	for i := range count {
		e := make([]byte, 100<<10)
		copy(e, fmt.Sprint(i, " "))
		all = append(all, e)
	}
	a, link := linked(t, "a", Config{})
	source := blobs(all...)
	port := wire.Bytes("blobs")
	Publish(a, port, source)
	runA := through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	got := 0
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		for _, e := range events {
			n := 0
			if _, err := fmt.Sscan(string(e[:10]), &n); err != nil || n != got {
				return fmt.Errorf("event %d came as number %d", n, got)
			}
			got++
		}
		return nil
	})
	stage.Connect(Outlet(b, port), sink)
	// Each delivery is of up to 12 MB, in frames of 1 MB.
	link.CutAfter(2 << 20)
	runB := start(t, b, sink)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 8 {
			before := link.Accepted()
			for link.Accepted() == before {
				select {
				case <-runB.done:
					return
				case <-time.After(time.Millisecond):
				}
			}
			link.CutAfter(1<<20 + rand.New(rand.NewPCG(r.Uint64(), 1)).Int64N(2<<20))
		}
	}()
	require.NoError(t, runB.wait())
	<-done
	link.Heal()
	require.NoError(t, runA.wait())
	require.Equal(t, count, got)
}

// What is un-acknowledged is bounded in bytes. It withholds sending, always lets one
// frame through, and never makes a consumer wait for the rest of a delivery.
func TestUnackedBytesAreBounded(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{MaxUnackedBytes: 1 << 20})
	var all [][]byte
	for range 100 {
		all = append(all, make([]byte, 300<<10))
	}
	source := blobs(all...)
	Publish(a, wire.Bytes("numbers"), source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(func(o *sluicev1.Open) { o.EventType, o.Codec = "[]byte", "bytes" })
	require.EqualValues(t, 1<<20, c.recv().GetOpened().GetMaxUnackedBytes())
	c.ask(100)
	acked, received, whole := int64(0), int64(0), int64(0)
	for received < 100 {
		// Until it pauses: a frame of 3 events, and one more that passes the limit.
		for received-acked < 4 && received < 100 {
			b := c.recv().GetBatch()
			received += int64(len(b.GetEvents()))
			if !b.GetMore() {
				whole = received
			}
		}
		require.LessOrEqual(t, received-acked, int64(6))
		if received < 100 {
			eventually(t, "it pauses", func() bool {
				rows := a.published["numbers"].rows()
				return len(rows) == 1 && rows[0].GetState() == "paused" && rows[0].GetSent() == received
			})
		}
		require.Equal(t, received, whole, "what has come can be handled")
		acked = received
		c.send(ackFrame(acked))
	}
	require.EqualValues(t, 100, c.recv().GetEnd().GetLast())
	_ = c.call.CloseSend()
	require.Equal(t, io.EOF, c.end())
}

// The same between two nodes, also with an event that is larger than the bound.
func TestFlowUnderABoundInBytes(t *testing.T) {
	t.Parallel()
	a, link := linked(t, "a", Config{MaxUnackedBytes: 64 << 10})
	var all [][]byte
	for i := range 500 {
		all = append(all, make([]byte, 1+i*100))
	}
	all = append(all, make([]byte, 1<<20))
	source := blobs(all...)
	port := wire.Bytes("blobs")
	Publish(a, port, source)
	runA := through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	got := 0
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		for _, e := range events {
			if len(e) != len(all[got]) {
				return fmt.Errorf("event %d has %d bytes", got, len(e))
			}
			got++
		}
		return nil
	})
	stage.Connect(Outlet(b, port), sink)
	runB := start(t, b, sink)
	require.NoError(t, errors.Join(runB.wait(), runA.wait()))
	require.Equal(t, len(all), got)
}

// MaxUnacked bounds what is un-acknowledged in events, also where more is asked for.
func TestUnackedEventsAreBounded(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{MaxUnacked: 50})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(nil)
	require.EqualValues(t, 50, c.recv().GetOpened().GetMaxUnackedEvents())
	c.ask(credit.Unbounded)
	c.ask(1 << 62)
	c.ask(credit.Unbounded)
	c.events(50)
	eventually(t, "it pauses", func() bool { return a.published["numbers"].rows()[0].GetState() == "paused" })
	c.send(ackFrame(30))
	c.events(30)
}

// Codecs are the code of users. One that panics, or fails, when it writes costs the
// event, which is discarded by name; one that does so when it reads ends its own
// subscription.
func TestBadCodecs(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, push := pushed()
	var gone discards
	source.OnDiscard = gone.add
	codec := &badCodec{}
	port := wire.New[int]("numbers", codec)
	Publish(a, port, source)
	other := endless()
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, source, other)
	flows := bystander(t, a)

	b := testNode("b", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(b, port), sink)
	start(t, b, sink)
	for i := range 40 {
		push(i)
	}
	// 13 panics and 17 fails when it is written.
	eventually(t, "the others arrive", func() bool { return got.len() == 38 })
	require.NotContains(t, got.all(), 13)
	require.NotContains(t, got.all(), 17)
	require.Equal(t, 2, gone.get(DiscardEncode))
	flows()

	codec.hostile.Store(true)
	push(1)
	eventually(t, "the sink fails", func() bool { return sink.Inspect().State == "failed" })
	err := sink.Inspect().Err
	require.ErrorIs(t, err, wire.RuleDecode)
	require.ErrorContains(t, err, "panicked")
	flows()
	codec.hostile.Store(false)

	// What it could not read is not lost.
	c := testNode("c", Config{Join: join(a)})
	var more record
	second := more.sink("sink")
	stage.Connect(Outlet(c, port), second)
	start(t, c, second)
	eventually(t, "another one gets it", func() bool { return more.len() == 1 })
}

type badCodec struct{ hostile atomic.Bool }

func (*badCodec) Name() string      { return "bad" }
func (*badCodec) EventType() string { return "int" }

func (*badCodec) Append(dst []byte, event int) ([]byte, error) {
	switch event {
	case 13:
		panic("I do not like 13")
	case 17:
		return nil, errors.New("I do not like 17")
	}
	return fmt.Append(dst, event), nil
}

func (c *badCodec) Decode(data []byte) (n int, err error) {
	if c.hostile.Load() {
		panic("I read no more")
	}
	err = json.Unmarshal(data, &n)
	return n, err
}

// A stage that fails with an error that is no text: its consumers are told all the same.
func TestErrorsThatAreNoText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\xff\xfe binary", strings.Repeat("long ", 100_000), strings.Repeat("\xff", 3000)} {
		a := testNode("a", Config{Cluster: "text"})
		source := stage.NewSource(func(context.Context, int) ([]int, error) { return nil, errors.New(text) })
		Publish(a, ints, source)
		b := testNode("b", Config{Cluster: "text"})
		runA := start(t, a, source)
		b.config.Join = join(a)
		var got record
		sink := got.sink("sink")
		stage.Connect(Outlet(b, ints), sink, stage.ResumeWindow(100*time.Millisecond)) // for another publisher
		runB := start(t, b, sink)
		require.Error(t, runA.wait())
		var ended *stage.SubscriptionError
		require.ErrorAs(t, runB.wait(), &ended)
		require.Equal(t, stage.Failed, ended.Reason)
		require.Less(t, len(ended.Error()), 5000)
	}
	// And the other way round.
	a := testNode("a", Config{Cluster: "text"})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	b := testNode("b", Config{Cluster: "text", Join: join(a)})
	sink := stage.NewSink(func(context.Context, []int) error { return errors.New("\xff\xfe") })
	stage.Connect(Outlet(b, ints), sink)
	require.Error(t, start(t, b, sink).wait())
	p := a.published["numbers"].(*published[int])
	eventually(t, "the producer is told", func() bool { return len(p.sessions()) == 0 })
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "plain", clip("plain"))
	require.Equal(t, "a\uFFFDb", clip("a\xff\xfeb"))
	long := clip(strings.Repeat("ä", maxMessage))
	require.True(t, utf8.ValidString(long))
	require.LessOrEqual(t, len(long), maxMessage+len(" ..."))
	require.True(t, strings.HasSuffix(long, "ä ..."))
}
