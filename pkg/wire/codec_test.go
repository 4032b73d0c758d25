package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"google.golang.org/protobuf/encoding/protowire"
	"math"
	"strings"
	"testing"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

type order struct {
	ID    string
	Lines []struct{ Price float64 }
}

type pair[A, B any] struct {
	First  A
	Second B
}

const here = "github.com/sluicenet/sluice/pkg/wire."

func TestEventTypes(t *testing.T) {
	f := func(want, got string) {
		t.Helper()
		require.Equal(t, want, got)
	}
	f("int", JSON[int]("x").EventType())
	f("uint8", JSON[byte]("x").EventType())
	f("interface {}", JSON[any]("x").EventType())
	f(here+"order", JSON[order]("x").EventType())
	f("*"+here+"order", JSON[*order]("x").EventType())
	f("[]"+here+"order", JSON[[]order]("x").EventType())
	f("[3]"+here+"order", JSON[[3]order]("x").EventType())
	f("map[string][]*"+here+"order", JSON[map[string][]*order]("x").EventType())
	f(here+"pair[int,"+here+"order]", JSON[pair[int, order]]("x").EventType())
	f(`struct { A int "json:\"a\""; B `+here+`order; }`, JSON[struct {
		A int `json:"a"`
		B order
	}]("x").EventType())
	f("sluice.v1.Range", Proto[*sluicev1.Range]("x").EventType())
	f("string", Text("x").EventType())
	f("[]byte", Bytes("x").EventType())
}

func TestRoundTrips(t *testing.T) {
	trip(t, "json", JSON[order]("x"), order{ID: "a", Lines: []struct{ Price float64 }{{1.5}}})
	trip(t, "json", JSON[*order]("x"), nil)
	trip(t, "json", JSON[[]int]("x"), []int{1, 2})
	trip(t, "text", Text("x"), "a line ✓")
	trip(t, "text", Text("x"), "")
	trip(t, "bytes", Bytes("x"), []byte{0, 255})

	require.Equal(t, "proto", Proto[*sluicev1.Range]("x").Codec().Name())
	data, err := Proto[*sluicev1.Range]("x").Codec().Append(nil, &sluicev1.Range{First: 3, Last: 4})
	require.NoError(t, err)
	r, err := Proto[*sluicev1.Range]("x").Codec().Decode(data)
	require.NoError(t, err)
	require.True(t, proto.Equal(&sluicev1.Range{First: 3, Last: 4}, r))
}

func trip[T any](t *testing.T, name string, p Port[T], event T) {
	t.Helper()
	require.Equal(t, name, p.Codec().Name())
	data, err := p.Codec().Append(nil, event)
	require.NoError(t, err)
	got, err := p.Codec().Decode(data)
	require.NoError(t, err)
	require.Equal(t, event, got)
}

func TestAppendAppends(t *testing.T) {
	reuses(t, JSON[int]("x"), 7)
	reuses(t, Text("x"), "seven")
	reuses(t, Bytes("x"), []byte("seven"))
	reuses(t, Proto[*sluicev1.Range]("x"), &sluicev1.Range{First: 7})
}

// reuses: what is there stays, and room that is there is used.
func reuses[T any](t *testing.T, p Port[T], event T) {
	t.Helper()
	alone, err := p.Codec().Append(nil, event)
	require.NoError(t, err)
	room := make([]byte, 0, 100)
	got, err := p.Codec().Append(append(room, "before"...), event)
	require.NoError(t, err)
	require.Equal(t, "before"+string(alone), string(got))
	require.Same(t, &room[:1][0], &got[0])
}

func TestCodecsRefuse(t *testing.T) {
	_, err := JSON[float64]("x").Codec().Append(nil, math.NaN())
	require.Error(t, err)
	_, err = JSON[int]("x").Codec().Decode([]byte(`"seven"`))
	require.Error(t, err)
	_, err = Proto[*sluicev1.Range]("x").Codec().Decode([]byte{0xff})
	require.Error(t, err)
	require.Panics(t, func() { Proto[proto.Message]("x") })
}

// A line in another encoding than UTF-8 comes out as it went in.
func TestTextIsLeftAlone(t *testing.T) {
	c := Text("x").Codec()
	data, err := c.Append(nil, "caf\xe9")
	require.NoError(t, err)
	text, err := c.Decode(data)
	require.NoError(t, err)
	require.Equal(t, "caf\xe9", text)
}

func TestBytesAreNotCopied(t *testing.T) {
	data := []byte("seven")
	event, err := Bytes("x").Codec().Decode(data)
	require.NoError(t, err)
	require.Same(t, &data[0], &event[0])
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"numbers", "orders of today", "größe/✓", strings.Repeat("x", 255)} {
		require.NoError(t, CheckName(name), "%q", name)
		require.NoError(t, Text(name).Check(), "%q", name)
		require.Equal(t, name, Text(name).Name())
	}
	for _, name := range []string{"", "a\nb", "a\tb", "\xff", "a\u00a0b", "a\x00", strings.Repeat("x", 256)} {
		require.ErrorIs(t, CheckName(name), RuleBadName, "%q", name)
		require.ErrorIs(t, Text(name).Check(), RuleBadName, "%q", name)
	}
	require.Error(t, Port[int]{name: "x"}.Check())
}

// upTo is a codec that cannot write what is longer than itself, or read "bad".
type upTo int

func (upTo) Name() string      { return "up-to" }
func (upTo) EventType() string { return "word" }

func (c upTo) Append(dst []byte, event string) ([]byte, error) {
	if len(event) > int(c) {
		return nil, errors.New("too long a word")
	}
	return append(dst, event...), nil
}

func (upTo) Decode(data []byte) (string, error) {
	if string(data) == "bad" {
		return "", errors.New("a bad word")
	}
	return string(data), nil
}

func TestCut(t *testing.T) {
	one := cost(1)
	f := func(events string, room, limit int64, want string, n int) {
		t.Helper()
		frame, got, err := Cut(upTo(9), strings.Fields(events), room, limit, nil)
		require.NoError(t, err)
		require.Equal(t, want, join(unpack(t, frame)))
		require.Equal(t, n, got)
	}
	f("", 100, 100, "", 0)
	f("a b c", 100, 100, "a b c", 3)
	f("a b c", 3*one, 100, "a b c", 3)
	f("a b c", 3*one-1, 100, "a b", 2)
	f("a b c", 1, 100, "a", 1)
	f("aaaaaaaaa b", 1, cost(9), "aaaaaaaaa", 1)
	f("a bbbbbbbbb", 2*one, one, "a", 1)
	f("a waytoolong", 100, 100, "a", 1)

	dst := []byte("before")
	frame, n, err := Cut(upTo(9), []string{"aaaaaaaaa"}, 100, cost(9)-1, dst)
	require.ErrorIs(t, err, RuleEventTooLarge)
	require.Zero(t, n)
	require.Equal(t, dst, frame)

	frame, n, err = Cut(upTo(9), []string{"waytoolong"}, 100, 100, dst)
	require.ErrorIs(t, err, RuleEncode)
	require.Zero(t, n)
	require.Equal(t, dst, frame)

	frame, n, err = Cut(forgetful{}, []string{"a"}, 100, 100, dst)
	require.ErrorIs(t, err, RuleEncode)
	require.ErrorContains(t, err, "shorter than what it was given")
	require.Zero(t, n)
	require.Equal(t, dst, frame)
}

// forgetful returns less than it was given.
type forgetful struct{ upTo }

func (forgetful) Append(dst []byte, _ string) ([]byte, error) { return nil, nil }

func join(frame [][]byte) string {
	words := make([]string, len(frame))
	for i, b := range frame {
		words[i] = string(b)
	}
	return strings.Join(words, " ")
}

// unpack returns the events of a frame, read the standard way.
func unpack(t require.TestingT, events []byte) [][]byte {
	b := new(sluicev1.Batch)
	require.NoError(t, proto.Unmarshal(events, b))
	return b.GetEvents()
}

// fullest is the size of a frame with everything beside its events at its largest.
func fullest(events []byte, n int) int {
	attempts := make([]int32, n)
	for i := range attempts {
		attempts[i] = math.MaxInt32
	}
	head, body := Batch{First: math.MaxInt64 - int64(n), Events: events, Attempts: attempts, More: true, Backlog: math.MaxInt64}.Frame()
	return len(head) + len(body)
}

// No frame is larger than its limit, and nothing is lost on the way.
func TestFramesKeepToTheirLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.StringN(0, 40, 200), 0, 40).Draw(t, "events")
		limit := rapid.Int64Range(300, 600).Draw(t, "limit")
		room := rapid.Int64Range(1, Room(limit)).Draw(t, "room")
		var got []string
		for rest := events; len(rest) > 0; {
			frame, n, err := Cut(Text("x").Codec(), rest, room, Room(limit), nil)
			require.NoError(t, err)
			require.Positive(t, n)
			require.LessOrEqual(t, int64(fullest(frame, n)), limit)
			got, err = Decode(Text("x").Codec(), unpack(t, frame), got)
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, len(events), len(got))
		for i := range events {
			require.Equal(t, events[i], got[i])
		}
	})
}

// A frame that is full to the last byte, with everything else at its largest.
func TestFullestFrameKeepsToItsLimit(t *testing.T) {
	for _, length := range []int{0, 1, 100, 127, 128, 20000} {
		const limit = 1 << 16
		events := make([]string, 20000)
		for i := range events {
			events[i] = strings.Repeat("x", length)
		}
		frame, n, err := Cut(Text("x").Codec(), events, Room(limit), Room(limit), nil)
		require.NoError(t, err)
		require.Equal(t, int(Room(limit)/cost(length)), n)
		size := fullest(frame, n)
		require.LessOrEqual(t, size, limit)
		require.LessOrEqual(t, int64(limit-size), besides+cost(length), "no more is left free than one event needs")
	}
}

// Lengths of one, two and three bytes stand side by side.
func TestEventsOfAllLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []string
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 127, 128, 16383, 16384}), 1, 8).Draw(t, "lengths") {
			events = append(events, strings.Repeat("x", n))
		}
		frame, n, err := Cut(Text("x").Codec(), events, 1<<20, 1<<20, nil)
		require.NoError(t, err)
		require.Equal(t, len(events), n)
		got, err := Decode(Text("x").Codec(), unpack(t, frame), nil)
		require.NoError(t, err)
		require.Equal(t, events, got)
	})
}

func encoded(events []string) [][]byte {
	out := make([][]byte, len(events))
	for i, e := range events {
		out[i] = []byte(e)
	}
	return out
}

func TestRoom(t *testing.T) {
	require.Equal(t, int64(1000-besides), Room(1000))
	require.Zero(t, Room(3))
}

func TestDecodeStopsAtWhatItCannotRead(t *testing.T) {
	got, err := Decode(upTo(9), encoded([]string{"a", "b", "bad", "d"}), []string{"before"})
	require.ErrorIs(t, err, RuleDecode)
	require.ErrorContains(t, err, "event 3 of 4")
	require.Equal(t, []string{"before", "a", "b"}, got)
}

func TestCutAllocatesNothingForAnEvent(t *testing.T) {
	events := make([][]byte, 250)
	for i := range events {
		events[i] = []byte("12345678")
	}
	codec := Bytes("x").Codec()
	dst := make([]byte, 0, 1<<12)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, n, err := Cut(codec, events, 1<<16, 1<<20, dst)
		if err != nil || n != len(events) {
			t.Fatal(n, err)
		}
	}))
}

// unsaid is a codec that says nothing of the memory of its events.
type unsaid struct{ Codec[[]byte] }

func TestMemoryOfCodecs(t *testing.T) {
	require.Equal(t, Copied, MemoryOf(JSON[int]("x").Codec()))
	require.Equal(t, Copied, MemoryOf(Text("x").Codec()))
	require.Equal(t, Copied, MemoryOf(Proto[*sluicev1.Open]("x").Codec()))
	require.Equal(t, Kept, MemoryOf(Bytes("x").Codec()))
	require.Equal(t, Lent, MemoryOf(LentBytes("x").Codec()))
	require.Equal(t, Kept, MemoryOf[[]byte](unsaid{LentBytes("x").Codec()}))
	kept, lent := Bytes("x"), LentBytes("x")
	require.Equal(t, kept.Codec().Name(), lent.Codec().Name(), "they read what the other writes")
	require.Equal(t, kept.EventType(), lent.EventType())
}

// Bytes are cut and decoded all at once, and it is as if they were one by one.
func TestBytesAreCutLikeOthers(t *testing.T) {
	lent := LentBytes("x").Codec()
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 20).Draw(t, "events")
		limit := rapid.Int64Range(0, 400).Draw(t, "limit")
		room := rapid.Int64Range(-1, 1).Draw(t, "more") // than what some of them take
		for _, e := range events[:rapid.IntRange(0, len(events)).Draw(t, "some")] {
			room += cost(len(e))
		}
		room = max(room, 0)
		dst := []byte("before")
		want, n, wantErr := Cut(unsaid{lent}, events, room, limit, dst)
		got, m, err := Cut(lent, events, room, limit, dst)
		require.Equal(t, want, got)
		require.Equal(t, n, m)
		require.Equal(t, wantErr, err)
		one, err := Decode(unsaid{lent}, events, [][]byte{{1}})
		require.NoError(t, err)
		all, err := Decode(lent, events, [][]byte{{1}})
		require.NoError(t, err)
		require.Equal(t, one, all)
	})
}

// A codec that says Copied keeps nothing of the data, whatever the events are made of.
func TestCopiedKeepsNothing(t *testing.T) {
	type order struct {
		Name  string
		Raw   json.RawMessage
		Blob  []byte
		Parts []any
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("unknown"))
	batch := &sluicev1.Batch{Events: [][]byte{[]byte("event")}}
	batch.ProtoReflect().SetUnknown(unknown)
	keepsNothing(t, JSON[order]("x").Codec(), order{"name", json.RawMessage(`{"a":"b"}`), []byte("blob"), []any{"part"}},
		func(o order) string { return fmt.Sprintf("%s %s %s %s", o.Name, o.Raw, o.Blob, o.Parts) })
	keepsNothing(t, JSON[json.RawMessage]("x").Codec(), json.RawMessage(`[1, 2]`), func(r json.RawMessage) string { return string(r) })
	keepsNothing(t, Proto[*sluicev1.Batch]("x").Codec(), batch,
		func(b *sluicev1.Batch) string {
			return fmt.Sprintf("%s %s", b.GetEvents(), b.ProtoReflect().GetUnknown())
		})
	keepsNothing(t, Text("x").Codec(), "line", func(s string) string { return s })
}

func keepsNothing[T any](t *testing.T, codec Codec[T], event T, show func(T) string) {
	t.Helper()
	require.Equal(t, Copied, MemoryOf(codec))
	data, err := codec.Append(nil, event)
	require.NoError(t, err)
	got, err := codec.Decode(data)
	require.NoError(t, err)
	before := show(got)
	for i := range data {
		data[i] = 0xDB
	}
	require.Equal(t, before, show(got))
	require.NotContains(t, before, "\xDB")
}
