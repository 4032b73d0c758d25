package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// guarded is a codec whose panics are errors, about the event that they are about. That
// costs something for every event, so it is used where one has panicked: see cut and
// decode.
type guarded[T any] struct{ wire.Codec[T] }

func (g guarded[T]) Append(dst []byte, event T) (out []byte, err error) {
	defer recoverTo(&err)
	return g.Codec.Append(dst, event)
}

func (g guarded[T]) Decode(data []byte) (event T, err error) {
	defer recoverTo(&err)
	return g.Codec.Decode(data)
}

// cut is wire.Cut with a codec that may panic.
func cut[T any](codec wire.Codec[T], events []T, room, limit int64, dst []byte) (packed []byte, n int, err error) {
	defer func() {
		if recover() != nil {
			packed, n, err = wire.Cut(guarded[T]{codec}, events, room, limit, dst)
		}
	}()
	return wire.Cut(codec, events, room, limit, dst)
}

// decode is wire.Decode with a codec that may panic.
func decode[T any](codec wire.Codec[T], events [][]byte, dst []T) (out []T, err error) {
	defer func() {
		if recover() != nil {
			out, err = wire.Decode(guarded[T]{codec}, events, dst)
		}
	}()
	return wire.Decode(codec, events, dst)
}

func recoverTo(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("it panicked: %v", v)
	}
}

// encodeOne encodes an event to be shown.
func encodeOne[T any](codec wire.Codec[T], event T) []byte {
	data, err := guarded[T]{codec}.Append(nil, event)
	if err != nil {
		return fmt.Append(nil, err)
	}
	return data
}

// Names for events that are discarded because they cannot be sent.
const (
	DiscardTooLarge = "too large"
	DiscardEncode   = "cannot be written"
)

func discardReason(err error) string {
	if errors.Is(err, wire.RuleEventTooLarge) {
		return DiscardTooLarge
	}
	return DiscardEncode
}

// clip makes the text of an error fit for the wire, which takes UTF-8 only, and keeps
// it short: it may hold a stack or anything that a user's code has put there.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " ..."
}

// weigh says how many bytes encoded events have together.
func weigh(events [][]byte) (n int64) {
	for _, e := range events {
		n += int64(len(e))
	}
	return n
}

func asEnded(err error, to **stage.EndedError) bool { return errors.As(err, to) }

var endReasons = map[stage.Reason]sluicev1.EndReason{
	stage.Completed: sluicev1.EndReason_END_REASON_COMPLETED,
	stage.Shutdown:  sluicev1.EndReason_END_REASON_SHUTDOWN,
	stage.Cancelled: sluicev1.EndReason_END_REASON_CANCELLED,
	stage.Failed:    sluicev1.EndReason_END_REASON_FAILED,
}

func endReason(r stage.Reason) sluicev1.EndReason {
	if e, ok := endReasons[r]; ok {
		return e
	}
	return sluicev1.EndReason_END_REASON_FAILED
}

// endingOf is how a subscription ended, as its End says it.
func endingOf(r sluicev1.EndReason, message string) stage.Ending {
	e := stage.Ending{Reason: stage.Failed}
	for reason, on := range endReasons {
		if on == r {
			e.Reason = reason
		}
	}
	if !e.Reason.Normal() {
		e.Err = errors.New(message)
	}
	return e
}
