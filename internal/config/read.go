package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// What a file may cost. The limits are far above what anybody writes by hand.
const (
	maxBytes  = 1 << 20
	maxDepth  = 100
	maxValues = 100_000 // after every alias is replaced by what it stands for
)

// read returns the one document in data, nil where there is none that can be used.
func read(p *problems, data []byte) *value {
	if len(data) > maxBytes {
		p.add(codeTooMuch, Pos{}, "the file is larger than %d bytes", maxBytes)
		return nil
	}
	if !checkText(p, data) {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(limits{}))
	if err != nil {
		p.add(codeNotYAML, Pos{}, "%v", err)
		return nil
	}
	var doc, next yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		p.add(codeNotYAML, Pos{1, 1}, "the file is empty")
		return nil
	case err != nil:
		notYAML(p, err)
		return nil
	}
	switch err := loader.Load(&next); {
	case err == nil:
		p.add(codeNotYAML, Pos{next.Line, next.Column}, "a second document begins here, a file has one")
		return nil
	case !errors.Is(err, io.EOF):
		notYAML(p, err)
		return nil
	}

	r := reader{p: p, anchored: map[*yaml.Node]*value{}}
	root := r.read(doc.Content[0])
	if r.tooMuch {
		return nil
	}
	if root.kind == null {
		p.add(codeNotYAML, Pos{1, 1}, "the file is empty")
		return nil
	}
	return root
}

// checkText reports whether data is text that YAML permits. The library would find
// that too, but without a position.
func checkText(p *problems, data []byte) bool {
	pos := Pos{1, 1}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			p.add(codeNotYAML, pos, "the file is not UTF-8: byte 0x%02x", data[i])
			return false
		case r == '\n':
			pos = Pos{pos.Line + 1, 0}
		case r == '\t' || r == '\r' || r == 0x85:
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff || r == 0xfeff && i > 0:
			p.add(codeNotYAML, pos, "YAML does not permit the character %U", r)
			return false
		}
		i += n
		pos.Col++
	}
	return true
}

func notYAML(p *problems, err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		p.add(codeNotYAML, Pos{}, "%v", err)
		return
	}
	at := Pos{e.Mark.Line, e.Mark.Column}
	if e.Message == errDepth.Error() {
		p.add(codeTooMuch, at, "%v", errDepth)
		return
	}
	what := "this is not YAML: " + e.Message
	if e.ContextMsg != "" {
		what += ", " + e.ContextMsg
		if began := (Pos{e.ContextMark.Line, e.ContextMark.Column}); began.Line > 0 && began != at {
			what += fmt.Sprintf(" that began at %d:%d", began.Line, began.Col)
		}
	}
	p.add(codeNotYAML, at, "%s", what)
}

var errDepth = fmt.Errorf("nested more than %d deep", maxDepth)

// limits makes the library stop where it gets too deep. It expands no aliases
// here, since it only reads nodes.
type limits struct{}

func (limits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return errDepth
	}
	return nil
}

func (limits) CheckAlias(int, int) error { return nil }

// reader turns nodes of YAML into values.
type reader struct {
	p *problems
	// anchored are the values that an alias may stand for: those that are complete.
	anchored map[*yaml.Node]*value
	tooMuch  bool
}

func (r *reader) read(n *yaml.Node) *value {
	if n.Kind == yaml.AliasNode {
		return r.alias(n)
	}
	v := &value{pos: Pos{n.Line, n.Column}, size: 1, depth: 1}
	if n.Anchor != "" {
		defer func() { r.anchored[n] = v }()
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.p.add(codeNotTaken, v.pos, "tags such as %s are not taken here", show(n.Tag))
	}
	switch n.Kind {
	case yaml.MappingNode:
		v.kind = mapping
		r.fields(v, n.Content)
	case yaml.SequenceNode:
		v.kind = list
		for _, c := range n.Content {
			item := r.read(c)
			v.items = append(v.items, item)
			r.count(v, item)
		}
	default:
		v.text, v.tag = n.Value, n.ShortTag()
		if v.tag != "!!null" {
			v.kind = scalar
		}
	}
	return v
}

func (r *reader) alias(n *yaml.Node) *value {
	if v := r.anchored[n.Alias]; v != nil {
		return v
	}
	at := Pos{n.Line, n.Column}
	r.tooMuch = true
	r.p.add(codeTooMuch, at, "the alias *%s stands for something that contains it", show(n.Value))
	return &value{pos: at, size: 1, depth: 1}
}

func (r *reader) fields(v *value, content []*yaml.Node) {
	lines := map[string]int{}
	for i := 0; i+1 < len(content); i += 2 {
		key, val := r.read(content[i]), r.read(content[i+1])
		at := Pos{content[i].Line, content[i].Column}
		r.count(v, val)
		switch {
		case key.kind != scalar:
			r.p.add(codeNotTaken, at, "a key has to be text, this is %v", key)
			continue
		case key.tag == "!!merge":
			r.p.add(codeNotTaken, at, "merge keys (<<) are not taken here, write the keys out")
			continue
		case lines[key.text] > 0:
			r.p.add(codeDuplicate, at, "the key %s is given twice, first at line %d", quote(key.text), lines[key.text])
			continue
		}
		lines[key.text] = at.Line
		v.fields = append(v.fields, field{key.text, at, val})
	}
}

// count adds what is below v. The sums are bounded, since reading ends with the
// first that is too large.
func (r *reader) count(v, below *value) {
	v.size = min(v.size+below.size, maxValues+1)
	v.depth = min(max(v.depth, below.depth+1), maxDepth+1)
	if r.tooMuch {
		return
	}
	if v.size > maxValues {
		r.tooMuch = true
		r.p.add(codeTooMuch, v.pos, "this stands for more than %d values", maxValues)
	} else if v.depth > maxDepth {
		r.tooMuch = true
		r.p.add(codeTooMuch, v.pos, "%v", errDepth)
	}
}
