package config

import (
	"fmt"
	"reflect"
)

// Stage is one stage of a file.
type Stage struct {
	Name string
	Kind Kind
	// Type is what kind of source, gate or sink it is, such as file. It is given,
	// but whether there is such a thing is not for the file to say.
	Type string
	// From is what a gate or a sink reads. It is empty for a source.
	From []From
	// OnError is what a gate or a sink does with an event that it cannot handle.
	OnError OnError
	// MaxAttempts is how often an event of a source or a gate may come back from whoever
	// had it: at least 1, -1 without limit, and 0 where the file does not say.
	MaxAttempts int
	// DeadLetter is the outlet for the events that the stage gives up, or empty.
	DeadLetter string
	// With is never nil.
	With *Section
	// Pos is where the name is, TypePos where the type is.
	Pos, TypePos Pos

	deadLetterPos Pos
}

// Kind is what a stage is: a Source, a Gate or a Sink.
type Kind int

// A stage is one of three kinds.
const (
	Source Kind = iota + 1
	Gate
	Sink
)

func (k Kind) String() string {
	switch k {
	case Source:
		return "source"
	case Gate:
		return "gate"
	case Sink:
		return "sink"
	default:
		return fmt.Sprintf("Kind(%d)", int(k))
	}
}

// stages reads the stages, as far as they can be.
func stages(p *problems, v *value) []Stage {
	if !v.given() {
		return nil
	}
	if v.kind != mapping {
		decoder{p}.wrong(v, "stages", "a mapping, of names to stages")
		return nil
	}
	var all []Stage
	for _, f := range v.fields {
		if wrong := badName(f.key, maxName); wrong != "" {
			p.add(codeValue, f.pos, "the name of the stage %s %s", quote(f.key), wrong)
		}
		all = append(all, stage(p, f))
	}
	return all
}

func stage(p *problems, f field) Stage {
	path := join("stages", f.key)
	s := Stage{
		Name:    f.key,
		Pos:     f.pos,
		TypePos: f.pos,
		With:    &Section{file: p.file, path: path + ".with", pos: f.pos},
	}
	var shape struct {
		Source *value   `yaml:"source"`
		Gate   *value   `yaml:"gate"`
		Sink   *value   `yaml:"sink"`
		From   *value   `yaml:"from"`
		Policy policies `yaml:",inline"`
		With   *value   `yaml:"with"`
	}
	decoder{p}.decode(f.value, path, reflect.ValueOf(&shape).Elem())
	if f.value.given() && f.value.kind != mapping {
		return s
	}

	var kinds []Kind
	for i, v := range []*value{shape.Source, shape.Gate, shape.Sink} {
		if v != nil {
			kinds = append(kinds, Source+Kind(i))
		}
	}
	switch len(kinds) {
	case 0:
		p.add(codeKind, f.pos, "%s has to be one of source, gate and sink, and is none", path)
	case 1:
		s.Kind = kinds[0]
		s.readType(p, path, f.value)
	default:
		p.add(codeKind, f.pos, "%s has to be one of source, gate and sink, and is more: %v", path, kinds)
	}

	s.From = froms(p, path+".from", shape.From)
	at, _ := f.value.field("from")
	switch given := shape.From.given() && !(shape.From.kind == list && len(shape.From.items) == 0); {
	case s.Kind == Source && given:
		p.add(codeFrom, at.pos, "%s is a source, which reads from nobody: it has no from", path)
	case s.Kind == Gate && !given, s.Kind == Sink && !given:
		p.add(codeFrom, f.value.locate(f.pos, "from"), "%s is a %v and needs from: the outlet that it reads", path, s.Kind)
	}

	s.policy(p, path, f.value, shape.Policy)

	if w := shape.With; w.given() {
		if (decoder{p}).want(w, path+".with", mapping, "a mapping") {
			s.With.pos, s.With.root = w.pos, w
		}
	}
	return s
}

// readType reads the type, which is the value of the key of the kind.
func (s *Stage) readType(p *problems, path string, in *value) {
	key := s.Kind.String()
	f, _ := in.field(key)
	path = join(path, key)
	s.TypePos = in.locate(f.pos, key)
	decoder{p}.decode(f.value, path, reflect.ValueOf(&s.Type).Elem())
	if s.Type == "" && !f.value.isWrong() {
		p.add(codeMissing, s.TypePos, "%s is empty: it says what kind of %s it is, such as file", path, key)
	}
}
