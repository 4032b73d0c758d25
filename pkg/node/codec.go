package node

import (
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// frames is how messages are written: the standard way, and the frames of
// subscriptions by the hand of pkg/wire, in the same bytes.
type frames struct{ encoding.CodecV2 }

var frameCodec = frames{encoding.GetCodecV2(encodingproto.Name)}

// Marshal implements encoding.CodecV2.
func (c frames) Marshal(v any) (mem.BufferSlice, error) {
	switch v.(type) {
	case *sluicev1.ProducerFrame, *sluicev1.SubscriberFrame:
	default:
		return c.CodecV2.Marshal(v)
	}
	m := v.(proto.Message)
	pool := mem.DefaultBufferPool()
	buf := pool.Get(wire.FrameSize(m))
	data, err := wire.AppendFrame((*buf)[:0], m)
	if err != nil {
		pool.Put(buf)
		return nil, err
	}
	*buf = data
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
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
