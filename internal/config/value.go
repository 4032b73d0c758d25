package config

import "strconv"

// value is one value of a file, with aliases resolved: what an alias stands for is
// shared, so a value is read only.
type value struct {
	kind kind
	pos  Pos
	// text is a scalar as it stands in the file, tag what YAML takes it for.
	text, tag string
	items     []*value
	fields    []field
	// size is the number of values, with everything below; depth how deep it is.
	size, depth int
}

type kind int

const (
	null kind = iota
	scalar
	list
	mapping
)

// field is one key of a mapping. Keys are unique.
type field struct {
	key   string
	pos   Pos
	value *value
}

// field returns the field of that name.
func (v *value) field(key string) (field, bool) {
	if v != nil {
		for _, f := range v.fields {
			if f.key == key {
				return f, true
			}
		}
	}
	return field{}, false
}

// at returns the value that the keys lead to, nil where there is none.
func (v *value) at(keys ...string) *value {
	for _, key := range keys {
		f, ok := v.field(key)
		if !ok {
			return nil
		}
		v = f.value
	}
	return v
}

// locate returns the position of the value that the keys lead to: that of its key
// where it is empty. Where the way ends early, it is the position of as much of it
// as there is, and pos where there is none.
func (v *value) locate(pos Pos, keys ...string) Pos {
	for _, key := range keys {
		f, ok := v.field(key)
		if !ok {
			break
		}
		v = f.value
		if pos = v.pos; v.kind == null {
			pos = f.pos
		}
	}
	return pos
}

// given reports whether there is a value: a key alone gives none.
func (v *value) given() bool { return v != nil && v.kind != null }

// String says what the value is, for messages.
func (v *value) String() string {
	switch v.kind {
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	case scalar:
		switch v.tag {
		case "!!int", "!!float":
			return "the number " + show(v.text)
		case "!!bool":
			return v.text
		default:
			return "the text " + quote(v.text)
		}
	default:
		return "nothing"
	}
}

// quote and show put text of the file into a message, which stays readable and on
// one line.
func quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strconv.Quote(text)
}

func show(text string) string {
	quoted := quote(text)
	return quoted[1 : len(quoted)-1]
}
