package wire

import (
	"encoding/json"
	"reflect"
	"strconv"

	"google.golang.org/protobuf/proto"
)

// Codec turns events of a port into bytes, and bytes into events. It has no state:
// any number of goroutines may use it at once.
type Codec[T any] interface {
	// Name says how events are written: "json". Both ends of a subscription have
	// codecs of the same name.
	Name() string
	// EventType names the type of the events, the same in every program that knows
	// it.
	EventType() string
	// Append appends the encoding of event to dst and returns the result, like
	// append. It keeps neither, and leaves event as it is. With an error it may
	// return anything; an event that cannot be written is discarded by name.
	Append(dst []byte, event T) ([]byte, error)
	// Decode returns the event that data encodes. The event may keep data, or parts
	// of it: nobody else writes to it. What it keeps holds the whole frame in memory.
	// A codec whose events keep less says so: see [Memory].
	Decode(data []byte) (T, error)
}

// Memory says how long an event needs the data that it was decoded from. A codec says it
// with a method
//
//	Memory() wire.Memory
//
// and the memory of frames is used again as soon as that allows. That is most of what
// larger events cost.
type Memory int

const (
	// Kept: for as long as there is the event, which nobody can say: every frame has
	// memory of its own. So it is for a codec that says nothing.
	Kept Memory = iota
	// Copied: not at all, once Decode has returned.
	Copied
	// Lent: until the event is processed. Whoever handles it copies what is to stay. Only
	// a sink can subscribe to such events, and only one without dead letters: others pass
	// on what they get.
	Lent
)

// MemoryOf returns what a codec says.
func MemoryOf[T any](c Codec[T]) Memory {
	if m, ok := c.(interface{ Memory() Memory }); ok {
		return m.Memory()
	}
	return Kept
}

// JSON returns a port whose events are written by [encoding/json]. The type of its
// events is named by the path of its package: example.com/shop.Order.
func JSON[T any](name string) Port[T] {
	return New[T](name, jsonCodec[T]{typeName(reflect.TypeFor[T]())})
}

// Proto returns a port whose events are protocol buffers. M is a generated message
// type, *shopv1.Order; the type of the events is named as in its .proto file.
func Proto[M proto.Message](name string) Port[M] {
	var none M
	if any(none) == nil {
		panic("wire: Proto[" + reflect.TypeFor[M]().String() + "] wants a generated message type")
	}
	return New[M](name, protoCodec[M]{none})
}

// Text returns a port whose events are lines or other texts. They are sent as they
// are: a line of a file in another encoding than UTF-8 comes out as it went in.
func Text(name string) Port[string] { return New[string](name, textCodec{}) }

// Bytes returns a port whose events are bytes, which are sent as they are. An event
// that arrives is a part of the frame that it came in, and is not copied.
func Bytes(name string) Port[[]byte] { return New[[]byte](name, bytesCodec{}) }

// LentBytes is [Bytes] for a sink that keeps nothing of its events, which are lent to it:
// they are valid until its handler returns, and their memory is used again then. In
// programs that are built with the race detector it is overwritten at once, so that
// what was kept is seen. To a publisher both ports are the same.
func LentBytes(name string) Port[[]byte] { return New[[]byte](name, lentCodec{}) }

type jsonCodec[T any] struct{ eventType string }

func (jsonCodec[T]) Name() string        { return "json" }
func (jsonCodec[T]) Memory() Memory      { return Copied }
func (c jsonCodec[T]) EventType() string { return c.eventType }

func (jsonCodec[T]) Append(dst []byte, event T) ([]byte, error) {
	b, err := json.Marshal(event)
	return append(dst, b...), err
}

func (jsonCodec[T]) Decode(data []byte) (event T, err error) {
	err = json.Unmarshal(data, &event)
	return event, err
}

type protoCodec[M proto.Message] struct{ none M }

func (protoCodec[M]) Name() string   { return "proto" }
func (protoCodec[M]) Memory() Memory { return Copied }

func (c protoCodec[M]) EventType() string {
	return string(c.none.ProtoReflect().Descriptor().FullName())
}

func (protoCodec[M]) Append(dst []byte, event M) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(dst, event)
}

func (c protoCodec[M]) Decode(data []byte) (M, error) {
	event := c.none.ProtoReflect().Type().New().Interface().(M)
	return event, proto.Unmarshal(data, event)
}

type textCodec struct{}

func (textCodec) Memory() Memory    { return Copied }
func (textCodec) Name() string      { return "text" }
func (textCodec) EventType() string { return "string" }

func (textCodec) Append(dst []byte, event string) ([]byte, error) { return append(dst, event...), nil }
func (textCodec) Decode(data []byte) (string, error)              { return string(data), nil }

type bytesCodec struct{}

func (bytesCodec) Name() string      { return "bytes" }
func (bytesCodec) EventType() string { return "[]byte" }

func (bytesCodec) Append(dst []byte, event []byte) ([]byte, error) { return append(dst, event...), nil }
func (bytesCodec) Decode(data []byte) ([]byte, error)              { return data, nil }

// encoded and decodeAll implement verbatim.
func (bytesCodec) encoded(events [][]byte) [][]byte        { return events }
func (bytesCodec) decodeAll(events, dst [][]byte) [][]byte { return append(dst, events...) }

// lentCodec reads what bytesCodec writes.
type lentCodec struct{ bytesCodec }

func (lentCodec) Memory() Memory { return Lent }

// typeName names a Go type by the paths of the packages in it.
func typeName(t reflect.Type) string {
	switch {
	case t.Name() != "" && t.PkgPath() != "":
		return t.PkgPath() + "." + t.Name()
	case t.Name() != "":
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeName(t.Elem())
	case reflect.Slice:
		return "[]" + typeName(t.Elem())
	case reflect.Array:
		return "[" + strconv.Itoa(t.Len()) + "]" + typeName(t.Elem())
	case reflect.Map:
		return "map[" + typeName(t.Key()) + "]" + typeName(t.Elem())
	case reflect.Struct:
		name := "struct {"
		for i := range t.NumField() {
			f := t.Field(i)
			name += " " + f.Name + " " + typeName(f.Type)
			if f.Tag != "" {
				name += " " + strconv.Quote(string(f.Tag))
			}
			name += ";"
		}
		return name + " }"
	}
	return t.String()
}
