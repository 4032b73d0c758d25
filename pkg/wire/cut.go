package wire

import (
	"encoding/binary"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// besides is the room in a frame for what it carries beside its events: tags,
// lengths, position, backlog, at their largest.
const besides = 64

// Room returns how many bytes a frame of at most limit bytes has for events.
func Room(limit int64) int64 { return max(limit-besides, 0) }

// cost is the room that an event of n encoded bytes takes, its attempts included.
func cost(n int) int64 { return int64(1+protowire.SizeBytes(n)) + attemptCost }

const attemptCost = 5

// Cut encodes as many events as the next frame of their delivery takes, and appends
// them to dst as a [Batch] carries them: each behind its tag and its length. It returns
// how many those are; the delivery goes on in another frame when they are not all.
//
// A frame is full when its events take room bytes. Only an event that is alone in
// its frame may take more, up to limit. Both are as [Room] returns them.
//
// An error, by RuleEventTooLarge or RuleEncode, is about events[0], and nothing is
// appended: the caller discards that event by name, and goes on behind it. Events
// are cut before they are emitted, so that what is discarded takes no position.
func Cut[T any](codec Codec[T], events []T, room, limit int64, dst []byte) (packed []byte, n int, err error) {
	if c, ok := codec.(verbatim[T]); ok {
		return cutBytes(c.encoded(events), room, limit, dst)
	}
	var used int64
	width := 1 // of the length; events of one delivery tend to be alike
	for _, event := range events {
		start, at := len(dst), len(dst)+1+width
		out := append(dst, eventTag, 0)
		if width > 1 {
			out = append(out, zeros[:width-1]...)
		}
		out, err := codec.Append(out, event)
		if err == nil && len(out) < at {
			err = errors.New("what it returned is shorter than what it was given")
		}
		if err != nil {
			if n > 0 {
				break // it comes first in the next frame
			}
			return dst, 0, broken(RuleEncode, "codec %s cannot write a %s: %v", codec.Name(), codec.EventType(), err)
		}
		length := len(out) - at
		size := cost(length)
		if n == 0 && size > limit {
			return dst, 0, tooLarge(length, limit)
		}
		if n > 0 && used+size > room {
			break
		}
		if w := protowire.SizeVarint(uint64(length)); w != width {
			out = slices.Grow(out, max(w-width, 0))[:len(out)+w-width]
			copy(out[start+1+w:], out[at:at+length])
			width = w
		}
		if n == 0 && len(events) > 1 {
			out = slices.Grow(out, int(min(room, int64(len(out)-start)*int64(len(events)-1))))
		}
		binary.PutUvarint(out[start+1:], uint64(length))
		dst = out
		used += size
		n++
	}
	return dst, n, nil
}

// cutBytes is Cut for events that are encoded.
func cutBytes(events [][]byte, room, limit int64, dst []byte) (packed []byte, n int, err error) {
	var used int64
	for _, event := range events {
		size := cost(len(event))
		switch {
		case n == 0 && size > limit:
			return dst, 0, tooLarge(len(event), limit)
		case n > 0 && used+size > room:
			return dst, n, nil
		case n == 0:
			dst = slices.Grow(dst, int(min(room, (size-attemptCost)*int64(len(events)))))
		}
		dst = append(dst, eventTag)
		dst = protowire.AppendVarint(dst, uint64(len(event)))
		dst = append(dst, event...)
		used += size
		n++
	}
	return dst, n, nil
}

func tooLarge(length int, limit int64) error {
	return broken(RuleEventTooLarge, "an event of %d bytes, where a frame has room for %d", length, limit).
		hint("raise the largest frame at both ends, or split the event")
}

// eventTag stands before every event of a Batch, and zeros where the rest of its length
// will.
const eventTag = byte(batchEvents)<<3 | byte(protowire.BytesType)

var zeros [binary.MaxVarintLen64]byte

// Decode decodes events, and appends them to dst. They may keep the memory of what
// they are decoded from.
//
// An error, by RuleDecode, is about the first event that is not in the result;
// those before it are.
func Decode[T any](codec Codec[T], events [][]byte, dst []T) ([]T, error) {
	if c, ok := codec.(verbatim[T]); ok {
		return c.decodeAll(events, dst), nil
	}
	for i, data := range events {
		event, err := codec.Decode(data)
		if err != nil {
			return dst, broken(RuleDecode, "codec %s cannot read event %d of %d as a %s: %v",
				codec.Name(), i+1, len(events), codec.EventType(), err)
		}
		dst = append(dst, event)
	}
	return dst, nil
}

// verbatim is a codec whose events are what they are encoded as.
type verbatim[T any] interface {
	encoded(events []T) [][]byte
	decodeAll(events [][]byte, dst []T) []T
}
