package node

import (
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// frames is how messages are written: the standard way, and the frames of
// subscriptions by the hand of pkg/wire, in the same bytes.
type frames struct{ encoding.CodecV2 }

var frameCodec = frames{encoding.GetCodecV2(encodingproto.Name)}

// flight is what gRPC has taken of one direction of a stream and not written to the
// connection yet. gRPC lets that be 64 KiB before a Send waits, and does not say how much
// it is; but it gives the memory of a frame back when that is written. So this counts, and
// what the peer says plays no part.
type flight struct{ bytes atomic.Int64 }

// light reports whether a frame can be sent that does not wait, whatever its size.
func (f *flight) light() bool { return f.bytes.Load() < lightBytes }

const lightBytes = 48 << 10

// packed is a frame that is encoded already: head, which may be empty, and body, in memory
// of the pool, which it gives back when the frame has left.
type packed struct {
	head []byte
	body *[]byte
	on   *flight
	size int64
}

// bodies has memory in powers of two. The default pool of gRPC has 32 KiB and then 1 MiB,
// and clears what it hands out: that costs more than a frame in between. The least is more
// than what gRPC takes for too little to give back.
var bodies = func() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
	if err != nil {
		panic(err) // the sizes are constants
	}
	return pool
}()

// Get implements mem.BufferPool.
func (f *packed) Get(n int) *[]byte { return bodies.Get(n) }

// Put implements mem.BufferPool: the frame has left, or never will.
func (f *packed) Put(body *[]byte) {
	f.on.bytes.Add(-f.size)
	bodies.Put(body)
}

// parts hands the frame to gRPC.
func (f *packed) parts() mem.BufferSlice {
	const prefix = 5 // of every message
	f.size = int64(prefix + len(f.head) + len(*f.body))
	f.on.bytes.Add(f.size)
	body := mem.NewBuffer(f.body, f)
	if len(f.head) == 0 {
		return mem.BufferSlice{body}
	}
	return mem.BufferSlice{mem.SliceBuffer(f.head), body}
}

// Marshal implements encoding.CodecV2.
func (c frames) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*packed); ok {
		return f.parts(), nil
	}
	return c.CodecV2.Marshal(v)
}

// arrival is a frame of a producer. The events of a batch are parts of its memory, which
// is its own with wire.Kept, and else used again: by the next frame that is read into the
// arrival, unless keep was called.
type arrival struct {
	frame  *sluicev1.ProducerFrame // used again for every frame
	memory wire.Memory
	data   mem.Buffer // that is to be given back
}

// keep leaves the memory to the caller, who gives it back; it is nil where there is
// nothing to be given back.
func (a *arrival) keep() mem.Buffer {
	data := a.data
	a.data = nil
	return data
}

func (a *arrival) read(data mem.BufferSlice) error {
	giveBack(a.keep())
	if a.memory == wire.Kept {
		return wire.ReadProducerFrame(data.Materialize(), a.frame)
	}
	if checked {
		a.data = mem.SliceBuffer(data.Materialize())
	} else {
		a.data = data.MaterializeToBuffer(bodies)
	}
	return wire.ReadProducerFrame(a.data.ReadOnlyData(), a.frame)
}

// giveBack gives back the memory of a frame, which nobody reads any more.
func giveBack(data mem.Buffer) {
	if data == nil {
		return
	}
	if checked {
		spoil(data.ReadOnlyData())
	}
	data.Free()
}

// spoil overwrites memory, so that whoever still reads it is found out.
func spoil(data []byte) {
	for i := range data {
		data[i] = 0xDB
	}
}

// Unmarshal implements encoding.CodecV2.
func (c frames) Unmarshal(data mem.BufferSlice, v any) error {
	switch f := v.(type) {
	case *arrival:
		return f.read(data)
	case *sluicev1.ProducerFrame:
		return wire.ReadProducerFrame(data.Materialize(), f)
	case *sluicev1.SubscriberFrame:
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		return wire.ReadSubscriberFrame(buf.ReadOnlyData(), f)
	}
	return c.CodecV2.Unmarshal(data, v)
}
