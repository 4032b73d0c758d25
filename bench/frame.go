package main

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// The frames of the raw rows are those of sluice, encoded by hand: a batch is its
// first position and its events, an ask is a number.

var (
	eventTag = protowire.AppendTag(nil, 2, protowire.BytesType)
	firstTag = protowire.AppendTag(nil, 1, protowire.VarintType)
)

// batchSize is how long the frame of n events is, at most.
func batchSize(n, size int) int { return 11 + n*(1+binary.MaxVarintLen32+size) }

// appendBatch appends a frame with the next n events of g.
func appendBatch(dst []byte, first uint64, n int, g *Generator) []byte {
	dst = protowire.AppendVarint(append(dst, firstTag...), first)
	for range n {
		dst = protowire.AppendVarint(append(dst, eventTag...), uint64(g.size))
		at := len(dst)
		dst = dst[:at+g.size]
		g.Put(dst[at:])
	}
	return dst
}

// appendEvents appends a frame with events.
func appendEvents(dst []byte, first uint64, events [][]byte) []byte {
	dst = protowire.AppendVarint(append(dst, firstTag...), first)
	for _, e := range events {
		dst = protowire.AppendBytes(append(dst, eventTag...), e)
	}
	return dst
}

var errFrame = errors.New("a frame cannot be read")

// readBatch appends the events of a frame to events, which point into it.
func readBatch(frame []byte, events [][]byte) ([][]byte, error) {
	for len(frame) > 0 {
		num, kind, n := protowire.ConsumeTag(frame)
		if n < 0 {
			return nil, errFrame
		}
		frame = frame[n:]
		switch {
		case num == 2 && kind == protowire.BytesType:
			e, n := protowire.ConsumeBytes(frame)
			if n < 0 {
				return nil, errFrame
			}
			events, frame = append(events, e), frame[n:]
		case kind == protowire.VarintType:
			_, n := protowire.ConsumeVarint(frame)
			if n < 0 {
				return nil, errFrame
			}
			frame = frame[n:]
		default:
			return nil, errFrame
		}
	}
	return events, nil
}
