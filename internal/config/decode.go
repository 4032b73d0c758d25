package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	valueType    = reflect.TypeFor[*value]()
	durationType = reflect.TypeFor[time.Duration]()
)

// decoder puts values into Go values, and reports what does not fit.
type decoder struct{ p *problems }

// decode leaves into as it is where nothing is given. The path is for messages.
func (d decoder) decode(v *value, path string, into reflect.Value) {
	if into.Type() == valueType {
		into.Set(reflect.ValueOf(v))
		return
	}
	if !v.given() {
		return
	}
	if into.Kind() == reflect.Pointer {
		if into.IsNil() {
			// Only what fits is set: nil stays nil if the value is wrong.
			fresh, before := reflect.New(into.Type().Elem()), len(d.p.list)
			d.decode(v, path, fresh.Elem())
			if len(d.p.list) == before {
				into.Set(fresh)
			}
			return
		}
		d.decode(v, path, into.Elem())
		return
	}
	if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if d.want(v, path, scalar, "text") {
			if err := text.UnmarshalText([]byte(v.text)); err != nil {
				d.p.add(codeValue, v.pos, "%s: %v", path, err)
			}
		}
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.structure(v, path, into)
	case reflect.Map:
		d.mapping(v, path, into)
	case reflect.Slice:
		d.list(v, path, into)
	case reflect.Interface:
		if into.NumMethod() > 0 {
			panic(fmt.Sprintf("config: cannot decode into %v", into.Type()))
		}
		into.Set(reflect.ValueOf(plain(v)))
	default:
		d.scalar(v, path, into)
	}
}

func (d decoder) want(v *value, path string, k kind, name string) bool {
	if v.kind == k {
		return true
	}
	d.wrong(v, path, name)
	return false
}

func (d decoder) wrong(v *value, path, want string) {
	if path != "" {
		path += ": "
	}
	d.p.add(codeType, v.pos, "%swant %s, have %v", path, want, v)
}

func (d decoder) structure(v *value, path string, into reflect.Value) {
	if !d.want(v, path, mapping, "a mapping") {
		return
	}
	targets := map[string]reflect.Value{}
	known := keys(into, targets, nil)
	for _, f := range v.fields {
		if target, ok := targets[f.key]; ok {
			d.decode(f.value, join(path, f.key), target)
			continue
		}
		what, takes := "unknown key "+quote(f.key), ": the file takes "
		if path != "" {
			what, takes = what+" in "+path, ": it takes "
		}
		hint := Suggest(f.key, known)
		switch {
		case hint != "":
		case len(known) == 0:
			what += takes + "none"
		default:
			what += takes + strings.Join(known, ", ")
		}
		d.p.add(codeUnknown, f.pos, "%s", what).Hint = hint
	}
}

// keys finds the fields of a struct by their keys, and returns the keys in order.
func keys(of reflect.Value, found map[string]reflect.Value, order []string) []string {
	for i := range of.NumField() {
		f := of.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case options == "inline":
			order = keys(of.Field(i), found, order)
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			found[name] = of.Field(i)
			order = append(order, name)
		}
	}
	return order
}

func (d decoder) mapping(v *value, path string, into reflect.Value) {
	t := into.Type()
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("config: cannot decode into %v", t))
	}
	if !d.want(v, path, mapping, "a mapping") {
		return
	}
	m := reflect.MakeMapWithSize(t, len(v.fields))
	for _, f := range v.fields {
		elem := reflect.New(t.Elem()).Elem()
		d.decode(f.value, join(path, f.key), elem)
		m.SetMapIndex(reflect.ValueOf(f.key).Convert(t.Key()), elem)
	}
	into.Set(m)
}

func (d decoder) list(v *value, path string, into reflect.Value) {
	if !d.want(v, path, list, "a list") {
		return
	}
	s := reflect.MakeSlice(into.Type(), len(v.items), len(v.items))
	for i, item := range v.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !item.given() && s.Index(i).Kind() != reflect.Interface {
			d.p.add(codeType, item.pos, "%s is empty", at)
			continue
		}
		d.decode(item, at, s.Index(i))
	}
	into.Set(s)
}

func (d decoder) scalar(v *value, path string, into reflect.Value) {
	switch k := into.Kind(); {
	case k == reflect.String:
		// Whatever stands there is text: what YAML takes for a number or a date too.
		if d.want(v, path, scalar, "text") {
			into.SetString(v.text)
		}
	case k == reflect.Bool:
		if v.tag != "!!bool" {
			d.wrong(v, path, "true or false")
			return
		}
		into.SetBool(strings.EqualFold(v.text, "true"))
	case into.Type() == durationType:
		n, err := time.ParseDuration(v.text)
		if v.kind != scalar || err != nil {
			d.wrong(v, path, "a duration such as 30s or 1m30s")
			return
		}
		into.SetInt(int64(n))
	case into.CanInt():
		n, err := strconv.ParseInt(v.text, 0, into.Type().Bits())
		if d.number(v, path, "a whole number", whole(v, err), err) {
			into.SetInt(n)
		}
	case into.CanUint():
		n, err := strconv.ParseUint(v.text, 0, into.Type().Bits())
		if d.number(v, path, "a whole number, not negative", whole(v, err), err) {
			into.SetUint(n)
		}
	case into.CanFloat():
		n, err := float(v, into.Type().Bits())
		if d.number(v, path, "a number", v.tag == "!!int" || v.tag == "!!float", err) {
			into.SetFloat(n)
		}
	default:
		panic(fmt.Sprintf("config: cannot decode into %v", into.Type()))
	}
}

func (d decoder) number(v *value, path, want string, is bool, err error) bool {
	switch {
	case !is, err != nil && !errors.Is(err, strconv.ErrRange):
		d.wrong(v, path, want)
	case err != nil:
		d.p.add(codeValue, v.pos, "%s: the number %s does not fit", path, show(v.text))
	default:
		return true
	}
	return false
}

// whole reports whether a value is a whole number. YAML takes one that is too large
// for a float.
func whole(v *value, err error) bool {
	return v.tag == "!!int" || v.tag == "!!float" && errors.Is(err, strconv.ErrRange)
}

func float(v *value, bits int) (float64, error) {
	if n, err := strconv.ParseInt(v.text, 0, 64); err == nil {
		return float64(n), nil
	}
	return strconv.ParseFloat(v.text, bits)
}

// plain returns the value as Go has it: maps, slices, strings, numbers, booleans.
func plain(v *value) any {
	switch v.kind {
	case mapping:
		m := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			m[f.key] = plain(f.value)
		}
		return m
	case list:
		s := make([]any, len(v.items))
		for i, item := range v.items {
			s[i] = plain(item)
		}
		return s
	case null:
		return nil
	}
	switch v.tag {
	case "!!bool":
		return strings.EqualFold(v.text, "true")
	case "!!int":
		if n, err := strconv.ParseInt(v.text, 0, 0); err == nil {
			return int(n)
		}
		fallthrough
	case "!!float":
		if n, err := strconv.ParseFloat(v.text, 64); err == nil {
			return n
		}
	}
	return v.text
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + show(key)
}
