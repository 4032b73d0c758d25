package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The frames that a subscription sends again and again are written and read by hand:
// Batch, and Ask and Ack without ranges. The bytes are those of the standard encoding,
// without its allocation for every event and its copies. All other frames, and every
// frame that is not just as these are written, go the standard way.

// Numbers of the fields, from the .proto file.
const (
	frameAsk   protowire.Number = 2 // of SubscriberFrame
	frameAck   protowire.Number = 3
	frameBatch protowire.Number = 2 // of ProducerFrame

	askN     protowire.Number = 1
	askAcked protowire.Number = 2
	ackAcked protowire.Number = 1

	batchFirst    protowire.Number = 1
	batchEvents   protowire.Number = 2
	batchAttempts protowire.Number = 3
	batchMore     protowire.Number = 4
	batchBacklog  protowire.Number = 5
)

// FrameSize returns how many bytes [AppendFrame] appends for m.
func FrameSize(m proto.Message) int {
	if number, size, ok := byHand(m); ok {
		return protowire.SizeTag(number) + protowire.SizeBytes(size)
	}
	return proto.Size(m)
}

// AppendFrame appends the encoding of m, a frame of either side, to dst.
func AppendFrame(dst []byte, m proto.Message) ([]byte, error) {
	number, size, ok := byHand(m)
	if !ok {
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	switch f := m.(type) {
	case *sluicev1.ProducerFrame:
		return appendBatch(dst, f.GetBatch()), nil
	case *sluicev1.SubscriberFrame:
		if a := f.GetAsk(); a != nil {
			dst = appendInt(dst, askN, a.GetN())
			return appendInt(dst, askAcked, a.GetAcked()), nil
		}
		return appendInt(dst, ackAcked, f.GetAck().GetAcked()), nil
	}
	return dst, nil
}

// byHand reports whether a frame is written by hand, as which field, and how many
// bytes that has.
func byHand(m proto.Message) (number protowire.Number, size int, ok bool) {
	switch f := m.(type) {
	case *sluicev1.ProducerFrame:
		if b, ok := f.GetFrame().(*sluicev1.ProducerFrame_Batch); ok {
			return frameBatch, sizeBatch(b.Batch), true
		}
	case *sluicev1.SubscriberFrame:
		switch f := f.GetFrame().(type) {
		case *sluicev1.SubscriberFrame_Ask:
			return frameAsk, sizeInt(f.Ask.GetN()) + sizeInt(f.Ask.GetAcked()), len(f.Ask.GetDone()) == 0
		case *sluicev1.SubscriberFrame_Ack:
			return frameAck, sizeInt(f.Ack.GetAcked()), len(f.Ack.GetDone()) == 0
		}
	}
	return 0, 0, false
}

func sizeBatch(b *sluicev1.Batch) int {
	size := sizeInt(b.GetFirst()) + sizeInt(b.GetBacklog())
	if b.GetMore() {
		size += 2
	}
	for _, e := range b.GetEvents() {
		size += 1 + protowire.SizeBytes(len(e))
	}
	if n := sizeAttempts(b.GetAttempts()); n > 0 {
		size += 1 + protowire.SizeBytes(n)
	}
	return size
}

func sizeAttempts(attempts []int32) (size int) {
	for _, a := range attempts {
		size += protowire.SizeVarint(uint64(int64(a)))
	}
	return size
}

func appendBatch(dst []byte, b *sluicev1.Batch) []byte {
	dst = appendInt(dst, batchFirst, b.GetFirst())
	for _, e := range b.GetEvents() {
		dst = protowire.AppendTag(dst, batchEvents, protowire.BytesType)
		dst = protowire.AppendBytes(dst, e)
	}
	if n := sizeAttempts(b.GetAttempts()); n > 0 {
		dst = protowire.AppendTag(dst, batchAttempts, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(n))
		for _, a := range b.GetAttempts() {
			dst = protowire.AppendVarint(dst, uint64(int64(a)))
		}
	}
	if b.GetMore() {
		dst = appendInt(dst, batchMore, 1)
	}
	return appendInt(dst, batchBacklog, b.GetBacklog())
}

// sizeInt and appendInt are for fields of one byte's tag; zero is not written.
func sizeInt(v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(v))
}

func appendInt(dst []byte, number protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), uint64(v))
}

// ReadProducerFrame decodes data into f. The events of a Batch are parts of data, which
// has to stay as it is for as long as they are in use. What f holds is overwritten, and
// its memory used again where that is possible: a caller that is done with a frame gives
// it for the next one.
func ReadProducerFrame(data []byte, f *sluicev1.ProducerFrame) error {
	if body, ok := only(data, frameBatch); ok {
		held, ok := f.Frame.(*sluicev1.ProducerFrame_Batch)
		if !ok || held.Batch == nil {
			held = BatchFrame(Batch{}).Frame.(*sluicev1.ProducerFrame_Batch)
		}
		if readBatch(body, held.Batch) {
			f.Frame = held
			return nil
		}
	}
	return proto.Unmarshal(data, f)
}

// ReadSubscriberFrame decodes data into f. What f holds is overwritten, and nothing of
// data is kept.
func ReadSubscriberFrame(data []byte, f *sluicev1.SubscriberFrame) error {
	if body, ok := only(data, frameAsk); ok {
		if v, ok := readInts(body, 2); ok {
			f.Frame = askFrame(v[askN], v[askAcked], nil).Frame
			return nil
		}
	}
	if body, ok := only(data, frameAck); ok {
		if v, ok := readInts(body, 1); ok {
			f.Frame = ackFrame(v[ackAcked], nil).Frame
			return nil
		}
	}
	return proto.Unmarshal(data, f)
}

// only returns the content of data's one field, if that has this number and a length.
func only(data []byte, number protowire.Number) (body []byte, ok bool) {
	if len(data) == 0 || data[0] != byte(protowire.EncodeTag(number, protowire.BytesType)) {
		return nil, false
	}
	body, n := protowire.ConsumeBytes(data[1:])
	return body, n == len(data)-1
}

// readInts reads the fields 1 to last, all of them numbers. It reports false when
// there is anything else.
func readInts(body []byte, last protowire.Number) (v [3]int64, ok bool) {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 || number > last || kind != protowire.VarintType {
			return v, false
		}
		x, m := protowire.ConsumeVarint(body[n:])
		if m < 0 {
			return v, false
		}
		v[number], body = int64(x), body[n+m:]
	}
	return v, true
}

// readBatch reads what appendBatch has written, in any order. It reports false when
// there is anything else, and leaves b in any state then.
func readBatch(body []byte, b *sluicev1.Batch) bool {
	b.First, b.Backlog, b.More = 0, 0, false
	clear(b.Events)
	b.Events, b.Attempts = b.Events[:0], b.Attempts[:0]
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		body = body[n:]
		switch {
		case number == batchEvents && kind == protowire.BytesType:
			e, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return false
			}
			if b.Events == nil {
				// Events of one delivery tend to be alike.
				b.Events = make([][]byte, 0, len(body)/(n+1)+1)
			}
			b.Events, body = append(b.Events, e[:len(e):len(e)]), body[n:]
		case number == batchAttempts && kind == protowire.BytesType:
			packed, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return false
			}
			for body = body[n:]; len(packed) > 0; packed = packed[n:] {
				var a uint64
				if a, n = protowire.ConsumeVarint(packed); n < 0 {
					return false
				}
				b.Attempts = append(b.Attempts, int32(a))
			}
		case kind == protowire.VarintType && (number == batchFirst || number == batchMore || number == batchBacklog):
			v, n := protowire.ConsumeVarint(body)
			if n < 0 {
				return false
			}
			switch body = body[n:]; number {
			case batchFirst:
				b.First = int64(v)
			case batchMore:
				b.More = v != 0
			default:
				b.Backlog = int64(v)
			}
		default:
			return false
		}
	}
	return true
}
