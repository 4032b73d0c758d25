package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// besides is the room in a frame for what it carries beside its events: tags,
// lengths, position, backlog, at their largest.
const besides = 64

// Room returns how many bytes a frame of at most limit bytes has for events.
func Room(limit int64) int64 { return max(limit-besides, 0) }

// cost is the room that an event of n encoded bytes takes, its attempts included.
func cost(n int) int64 { return int64(1 + protowire.SizeBytes(n) + 5) }

// Cut encodes as many events as the next frame of their delivery takes, and
// appends the encodings to dst. It returns how many those are; the delivery goes
// on in another frame when they are not all.
//
// A frame is full when its events take room bytes. Only an event that is alone in
// its frame may take more, up to limit. Both are as [Room] returns them.
//
// An error, by RuleEventTooLarge or RuleEncode, is about events[0], and nothing is
// appended: the caller discards that event by name, and goes on behind it. Events
// are cut before they are emitted, so that what is discarded takes no position.
func Cut[T any](codec Codec[T], events []T, room, limit int64, dst [][]byte) (frame [][]byte, n int, err error) {
	var buf []byte
	var used int64
	for _, event := range events {
		start := len(buf)
		if buf, err = codec.Append(buf, event); err != nil {
			if n > 0 {
				break // it comes first in the next frame
			}
			return dst, 0, broken(RuleEncode, "codec %s cannot write a %s: %v", codec.Name(), codec.EventType(), err)
		}
		size := cost(len(buf) - start)
		if n == 0 && size > limit {
			return dst, 0, broken(RuleEventTooLarge, "an event of %d bytes, where a frame has room for %d", len(buf)-start, limit).
				hint("raise the largest frame at both ends, or split the event")
		}
		if n > 0 && used+size > room {
			break
		}
		if n == 0 && len(events) > 1 {
			// Events of one delivery tend to be alike: make room for all of them at once.
			buf = slices.Grow(buf, int(min(room, int64(len(buf)+1)*int64(len(events)))))
		}
		// What an earlier, smaller buf holds stays valid when append moves it.
		dst = append(dst, buf[start:len(buf):len(buf)])
		used += size
		n++
	}
	return dst, n, nil
}

// Fit returns how many of the events, encoded before, the next frame takes: as many
// as Room bytes hold, and at least one.
func Fit(events [][]byte, room int64) int {
	var used int64
	for i, event := range events {
		if used += cost(len(event)); used > room && i > 0 {
			return i
		}
	}
	return len(events)
}

// Decode decodes events, and appends them to dst. They may keep the memory of what
// they are decoded from.
//
// An error, by RuleDecode, is about the first event that is not in the result;
// those before it are.
func Decode[T any](codec Codec[T], events [][]byte, dst []T) ([]T, error) {
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
