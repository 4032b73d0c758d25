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

// FrameSize returns how many bytes [AppendFrame] appends for a frame of a consumer.
func FrameSize(f *sluicev1.SubscriberFrame) int {
	if number, size, ok := byHand(f); ok {
		return protowire.SizeTag(number) + protowire.SizeBytes(size)
	}
	return proto.Size(f)
}

// AppendFrame appends the encoding of a frame of a consumer to dst.
func AppendFrame(dst []byte, f *sluicev1.SubscriberFrame) ([]byte, error) {
	number, size, ok := byHand(f)
	if !ok {
		return proto.MarshalOptions{}.MarshalAppend(dst, f)
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	if a := f.GetAsk(); a != nil {
		dst = appendInt(dst, askN, a.GetN())
		return appendInt(dst, askAcked, a.GetAcked()), nil
	}
	return appendInt(dst, ackAcked, f.GetAck().GetAcked()), nil
}

// byHand reports whether a frame is written by hand, as which field, and how many
// bytes that has.
func byHand(f *sluicev1.SubscriberFrame) (number protowire.Number, size int, ok bool) {
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		return frameAsk, sizeInt(f.Ask.GetN()) + sizeInt(f.Ask.GetAcked()), len(f.Ask.GetDone()) == 0
	case *sluicev1.SubscriberFrame_Ack:
		return frameAck, sizeInt(f.Ack.GetAcked()), len(f.Ack.GetDone()) == 0
	}
	return 0, 0, false
}

// Frame returns the encoding of the frame in two parts, so that its events are copied no
// more: body is b.Events with what follows them appended, and head is made for it.
func (b Batch) Frame() (head, body []byte) {
	body = b.Events
	if n := sizeAttempts(b.Attempts); n > 0 {
		body = protowire.AppendTag(body, batchAttempts, protowire.BytesType)
		body = protowire.AppendVarint(body, uint64(n))
		for _, a := range b.Attempts {
			body = protowire.AppendVarint(body, uint64(int64(a)))
		}
	}
	if b.More {
		body = appendInt(body, batchMore, 1)
	}
	body = appendInt(body, batchBacklog, b.Backlog)
	head = make([]byte, 0, 24)
	head = protowire.AppendTag(head, frameBatch, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(sizeInt(b.First)+len(body)))
	return appendInt(head, batchFirst, b.First), body
}

func sizeAttempts(attempts []int32) (size int) {
	for _, a := range attempts {
		size += protowire.SizeVarint(uint64(int64(a)))
	}
	return size
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
			held = &sluicev1.ProducerFrame_Batch{Batch: new(sluicev1.Batch)}
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

// readEvents reads the events that body begins with, as long as their lengths have one or
// two bytes, and appends them to events. It returns the rest, which may go on with any field.
func readEvents(body []byte, events [][]byte) ([][]byte, []byte) {
	for len(body) > 2 && body[0] == eventTag {
		n, at := int(body[1]), 2
		if n >= 0x80 {
			if body[2] >= 0x80 {
				break
			}
			n, at = n&0x7F|int(body[2])<<7, 3
		}
		if n > len(body)-at {
			break
		}
		events, body = append(events, body[at:at+n:at+n]), body[at+n:]
	}
	return events, body
}

// readBatch reads what appendBatch has written, in any order. It reports false when
// there is anything else, and leaves b in any state then.
func readBatch(body []byte, b *sluicev1.Batch) bool {
	b.First, b.Backlog, b.More = 0, 0, false
	before := len(b.Events)
	b.Events, b.Attempts = b.Events[:0], b.Attempts[:0]
	defer func() {
		if now := len(b.Events); now < before {
			clear(b.Events[now:before]) // of the frame before
		}
	}()
	for len(body) > 0 {
		if b.Events != nil {
			b.Events, body = readEvents(body, b.Events)
			if len(body) == 0 {
				break
			}
		}
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
