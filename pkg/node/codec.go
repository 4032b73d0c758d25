package node

import (
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

// packed is a Batch frame that is encoded already, in memory of the pool.
type packed struct {
	head []byte
	body *[]byte
}

// small is up to which size the parts of a frame are put together: that costs less than
// to keep them apart.
const small = 1 << 9

// Marshal implements encoding.CodecV2.
func (c frames) Marshal(v any) (mem.BufferSlice, error) {
	pool := mem.DefaultBufferPool()
	switch f := v.(type) {
	case *packed:
		if len(*f.body) <= small {
			data := append(f.head, *f.body...)
			pool.Put(f.body)
			return mem.BufferSlice{mem.SliceBuffer(data)}, nil
		}
		return mem.BufferSlice{mem.SliceBuffer(f.head), mem.NewBuffer(f.body, pool)}, nil
	case *sluicev1.SubscriberFrame:
		data, err := wire.AppendFrame(make([]byte, 0, wire.FrameSize(f)), f)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. Events are parts of the frame that they came
// in, which has memory of its own.
func (c frames) Unmarshal(data mem.BufferSlice, v any) error {
	switch f := v.(type) {
	case *sluicev1.ProducerFrame:
		return wire.ReadProducerFrame(data.Materialize(), f)
	case *sluicev1.SubscriberFrame:
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		return wire.ReadSubscriberFrame(buf.ReadOnlyData(), f)
	}
	return c.CodecV2.Unmarshal(data, v)
}
