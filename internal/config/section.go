package config

import (
	"fmt"
	"reflect"
)

// Section is a part of the file that somebody else decodes: what a stage is made
// with. One that is not in the file is empty.
type Section struct {
	file, path string
	pos        Pos
	root       *value // a mapping, or nil
}

// Decode puts the section into the struct that into points to, strictly: a key
// that the struct does not have is an error, as is a value of another type. All
// problems are reported at once, as [Errors]. What the section does not give stays
// as it is, so that into may hold defaults.
//
// Keys are those of yaml tags, or else the names of the fields in lower case; a
// struct with the option inline takes its keys from where it is in. Fields are of
// the basic types, [time.Duration], [encoding.TextUnmarshaler], any, and pointers,
// structs, slices and maps with text as keys of them. Another type is a mistake of
// the program, and Decode panics.
func (s *Section) Decode(into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: cannot decode into %T, only into a pointer to a struct", into))
	}
	p := &problems{file: s.file}
	decoder{p}.decode(s.root, s.path, target.Elem())
	return p.err()
}

// Has reports whether the section gives a value to key.
func (s *Section) Has(key string) bool { return s.root.at(key).given() }

// Pos returns the position of the value that the keys lead to, or of as much of
// the way as there is, which is the stage itself where there is no section.
func (s *Section) Pos(keys ...string) Pos { return s.root.locate(s.pos, keys...) }

// Errorf returns a problem with the value of key, or with the section where key is
// "". It names the stage and the key by itself.
func (s *Section) Errorf(key, format string, args ...any) *Error {
	path, pos := s.path, s.pos
	if key != "" {
		path, pos = join(path, key), s.Pos(key)
	}
	p := &problems{file: s.file}
	return p.add(codeSettings, pos, "%s: %s", path, fmt.Sprintf(format, args...))
}
