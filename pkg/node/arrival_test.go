package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// numbered is event n, of a length of its own.
func numbered(n int) []byte {
	length := 8 + n*7919%3000
	if n%100 == 0 {
		length = 100 << 10
	}
	return fmt.Appendf(nil, "%0*d", length, n)
}

// Events that are lent are whole for as long as a handler has them: when it fails, when it
// stops half-way, and when their stream breaks. Afterwards their memory is used again.
// Rows LNT-01, LNT-02, LNT-04.
func TestLentEvents(t *testing.T) {
	t.Parallel()
	const count = 3000
	a, link := linked(t, "a", Config{})
	made := 0
	source := stage.NewSource(func(_ context.Context, demand int) ([][]byte, error) {
		var events [][]byte
		for ; len(events) < demand && made < count; made++ {
			events = append(events, numbered(made))
		}
		if made == count {
			return events, io.EOF
		}
		return events, nil
	})
	Publish(a, wire.Bytes("blobs"), source)
	runA := through(t, a, link, source)
	b := testNode("b", Config{Join: join(a)})
	var kept [][]byte // against the rules
	calls, next := 0, 0
	whole := func(events [][]byte) error {
		for i, e := range events {
			if !bytes.Equal(e, numbered(next+i)) {
				return fmt.Errorf("event %d came as %.20q", next+i, e)
			}
		}
		return nil
	}
	var broken error
	sink := stage.NewSink(func(_ context.Context, events [][]byte) error {
		broken = whole(events)
		runtime.Gosched()
		if broken == nil {
			broken = whole(events)
		}
		switch calls++; {
		case broken != nil:
			return stage.Stop
		case calls%5 == 0:
			return fmt.Errorf("call %d", calls)
		case calls%7 == 0 && len(events) > 1:
			next++
			return stage.FailedAt(1, fmt.Errorf("call %d", calls))
		case calls%50 == 0:
			link.CutAfter(1)
		}
		kept = append(kept, events[0])
		next += len(events)
		return nil
	})
	sink.OnError = stage.ErrorPolicy{Retries: 3, Delay: time.Millisecond}
	stage.Connect(Outlet(b, wire.LentBytes("blobs")), sink, stage.MaxDemand(100), stage.MinDemand(75))
	runB := start(t, b, sink)
	require.NoError(t, runB.wait())
	require.NoError(t, broken)
	require.NoError(t, runA.wait())
	require.Equal(t, count, next)
	if spoiled := spoiledOf(kept); checked {
		require.Greater(t, spoiled, len(kept)/2)
	} else {
		require.Zero(t, spoiled)
	}
}

func spoiledOf(events [][]byte) (n int) {
	for _, e := range events {
		if len(bytes.Trim(e, "\xDB")) == 0 {
			n++
		}
	}
	return n
}

// The memory of a frame is its own, used again by the next one, or left to whoever keeps it.
func TestArrival(t *testing.T) {
	frame := func(event string) mem.BufferSlice {
		b := &sluicev1.Batch{First: 1, Events: [][]byte{[]byte(event)}}
		data, err := proto.Marshal(&sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Batch{Batch: b}})
		require.NoError(t, err)
		return mem.BufferSlice{mem.SliceBuffer(data[:1]), mem.SliceBuffer(data[1:])}
	}
	read := func(a *arrival, event string) []byte {
		require.NoError(t, a.read(frame(event)))
		got := a.frame.GetBatch().GetEvents()[0]
		require.Equal(t, event, string(got))
		return got
	}
	kept := arrival{frame: new(sluicev1.ProducerFrame)}
	first := read(&kept, "first")
	require.Nil(t, kept.keep(), "nothing is to be given back")
	read(&kept, "other")
	require.Equal(t, "first", string(first))

	lent := arrival{frame: new(sluicev1.ProducerFrame), memory: wire.Lent}
	first = read(&lent, "first")
	data := lent.keep()
	require.NotNil(t, data)
	require.Nil(t, lent.keep(), "it has one owner")
	read(&lent, "other")
	require.Equal(t, "first", string(first))
	giveBack(data)

	copied := arrival{frame: new(sluicev1.ProducerFrame), memory: wire.Copied}
	first = read(&copied, "first")
	read(&copied, "other")
	if checked {
		require.NotEqual(t, "first", string(first), "it is given back before the next frame")
	}
}

// What is lent to a stage is taken back with what it has processed, frame by frame.
// Row LNT-02.
func TestLentFramesAreTakenBack(t *testing.T) {
	i := &inflow[[]byte]{core: wire.NewConsumer(1, 1, 10)}
	i.core.Open()
	require.NoError(t, i.core.Opened(1, 10, 1))
	for _, last := range []int64{3, 4, 8} {
		_, err := i.core.Batch(i.core.Received()+1, last-i.core.Received())
		require.NoError(t, err)
		i.lent = append(i.lent, lentFrame{last: last, data: mem.SliceBuffer(nil)})
	}
	for _, step := range []struct{ acked, left int64 }{{2, 3}, {3, 2}, {7, 1}, {6, 1}, {8, 0}} {
		i.processed(step.acked, nil, false)
		require.Len(t, i.lent, int(step.left), "processed up to %d", step.acked)
	}
}

// Who has events lent and who keeps them have different outlets of one name.
func TestLentAndKeptAreTwoOutlets(t *testing.T) {
	n := testNode("a", Config{})
	kept, lent := Outlet(n, wire.Bytes("blobs")), Outlet(n, wire.LentBytes("blobs"))
	require.NotEqual(t, kept, lent)
	require.Same(t, lent, Outlet(n, wire.LentBytes("blobs")))
	require.Same(t, kept, Outlet(n, wire.Bytes("blobs")))
	require.False(t, kept.(stage.Lender).Lends())
	require.True(t, lent.(stage.Lender).Lends())
}
