package wire

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name of an outlet, in bytes.
const maxName = 255

// Port is the typed, network-wide name of an outlet: a name and a codec. It is a
// value that publisher and subscriber share, so that a program in which they
// differ does not compile; between programs built apart, a subscription whose
// ports differ in type or codec is refused, naming both.
//
//	var Numbers = wire.JSON[int]("numbers")
type Port[T any] struct {
	name  string
	codec Codec[T]
}

// New returns a port. It checks nothing, so that ports can be package variables;
// see [Port.Check].
func New[T any](name string, codec Codec[T]) Port[T] {
	return Port[T]{name: name, codec: codec}
}

// Name is the name of the outlet.
func (p Port[T]) Name() string { return p.name }

// EventType names the type of the events, as the codec says it.
func (p Port[T]) EventType() string { return p.codec.EventType() }

// Codec is how events are written. It is nil for the zero Port only.
func (p Port[T]) Codec() Codec[T] { return p.codec }

// Check reports what keeps the port from being published or subscribed to: its
// name, see [CheckName], or that it has no codec.
func (p Port[T]) Check() error {
	if p.codec == nil {
		return errors.New("wire: the port has no codec")
	}
	return CheckName(p.name)
}

// CheckName returns an error by RuleBadName unless name can name an outlet: it is
// not empty, at most 255 bytes long, and of printable UTF-8, where the only space
// is ' '.
func CheckName(name string) error {
	switch {
	case name == "":
		return broken(RuleBadName, "the outlet has no name")
	case len(name) > maxName:
		return broken(RuleBadName, "the outlet's name has %d bytes", len(name)).hint("at most %d", maxName)
	case !utf8.ValidString(name):
		return broken(RuleBadName, "the outlet's name %q is not UTF-8", name)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return broken(RuleBadName, "the outlet's name %q has a character that cannot be printed", name)
		}
	}
	return nil
}
