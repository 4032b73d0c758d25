package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// From is an outlet that a stage reads, and the terms. The outlet is one of this
// file, or of anybody in the cluster.
type From struct {
	Outlet string
	// MaxDemand is at least 1, and MinDemand less than it. Nil is not given: the
	// one is [DefaultMaxDemand] then, and the other follows from it.
	MaxDemand, MinDemand *int
	// Auto lets the stage size its demand by itself, from MaxDemand on; nil where it does
	// not.
	Auto *Auto
	// ResumeWindow is how long the subscription outlives its stream, nil where the
	// file does not say.
	ResumeWindow *time.Duration
	// One follows one of the nodes that offer the outlet, and not all of them. Expect
	// waits until that many have completed; 0 is those that are there. Both are zero
	// for an outlet of this file.
	One    bool
	Expect int
	Pos    Pos
	// following is the key that says which nodes are followed, if one is given.
	following string
	followPos Pos
}

// froms reads from: an outlet or a list of outlets, each its name or a mapping.
func froms(p *problems, path string, v *value) []From {
	if !v.given() {
		return nil
	}
	if v.kind != list {
		if f, ok := from(p, path, v); ok {
			return []From{f}
		}
		return nil
	}
	var all []From
	seen := map[string]Pos{}
	for i, item := range v.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		f, ok := from(p, at, item)
		if !ok {
			continue
		}
		if first, twice := seen[f.Outlet]; twice {
			p.add(codeTwice, f.Pos, "%s names %s a second time, first at %d:%d: one stage reads an outlet once",
				at, quote(f.Outlet), first.Line, first.Col)
			continue
		}
		seen[f.Outlet] = f.Pos
		all = append(all, f)
	}
	return all
}

// from reads one entry of from, and reports whether it names an outlet.
func from(p *problems, path string, v *value) (From, bool) {
	f := From{Pos: v.pos}
	var outlet *value
	switch v.kind {
	case mapping:
		shape := struct {
			Outlet       *value         `yaml:"outlet"`
			MaxDemand    *int           `yaml:"max_demand"`
			MinDemand    *int           `yaml:"min_demand"`
			AutoDemand   *value         `yaml:"auto_demand"`
			ResumeWindow *time.Duration `yaml:"resume_window"`
			Publishers   *value         `yaml:"publishers"`
			Expect       *int           `yaml:"expect"`
		}{}
		decoder{p}.decode(v, path, reflect.ValueOf(&shape).Elem())
		f.MaxDemand, f.MinDemand, f.ResumeWindow = shape.MaxDemand, shape.MinDemand, shape.ResumeWindow
		f.sizes(p, path, shape.AutoDemand)
		checkTerms(p, path, f, v)
		f.follow(p, path, v, shape.Publishers, shape.Expect)
		path, outlet = path+".outlet", shape.Outlet
	case scalar:
		outlet = v
	default:
		decoder{p}.wrong(v, path, "the name of an outlet, or a mapping with outlet")
		return f, false
	}
	decoder{p}.decode(outlet, path, reflect.ValueOf(&f.Outlet).Elem())
	switch {
	case outlet.isWrong():
		return f, false
	case f.Outlet == "":
		p.add(codeMissing, v.locate(v.pos, "outlet"), "%s is required: the name of the outlet to read", path)
		return f, false
	case len(f.Outlet) > maxName:
		p.add(codeValue, v.locate(v.pos, "outlet"), "%s %s is longer than %d bytes", path, quote(f.Outlet), maxName)
		return f, false
	}
	return f, true
}

func checkTerms(p *problems, path string, f From, v *value) {
	most, known := f.Auto.within(DefaultMaxDemand), true
	if f.MaxDemand != nil {
		if most = *f.MaxDemand; most < 1 {
			known = false
			p.add(codeValue, v.locate(v.pos, "max_demand"), "%s.max_demand is %d, and has to be at least 1", path, most)
		}
	} else if v.at("max_demand").given() {
		known = false
	}
	switch low := f.MinDemand; {
	case low == nil:
	case *low < 0:
		p.add(codeValue, v.locate(v.pos, "min_demand"), "%s.min_demand is %d, and has to be at least 0", path, *low)
	case known && *low >= most && f.MaxDemand == nil:
		p.add(codeValue, v.locate(v.pos, "min_demand"), "%s.min_demand is %d, and has to be less than max_demand, which is %d by default", path, *low, most)
	case known && *low >= most:
		p.add(codeValue, v.locate(v.pos, "min_demand"), "%s.min_demand is %d, and has to be less than max_demand, which is %d", path, *low, most)
	}
	if w := f.ResumeWindow; w != nil && *w < 0 {
		p.add(codeValue, v.locate(v.pos, "resume_window"), "%s.resume_window is %v, and has to be at least 0", path, *w)
	}
}

// publishers are the words for which of the nodes that offer an outlet are followed.
var publishers = []string{"all", "one"}

// follow reads which of the nodes that offer the outlet are followed.
func (f *From) follow(p *problems, path string, v, which *value, expect *int) {
	if expect != nil {
		f.following, f.followPos = "expect", v.locate(v.pos, "expect")
		if f.Expect = *expect; f.Expect < 1 {
			p.add(codeValue, f.followPos, "%s.expect is %d, and has to be at least 1", path, f.Expect)
		}
	}
	if !which.given() {
		return
	}
	f.following, f.followPos = "publishers", which.pos
	var word string
	decoder{p}.decode(which, path+".publishers", reflect.ValueOf(&word).Elem())
	f.One = word == "one"
	if !which.isWrong() && !slices.Contains(publishers, word) {
		p.add(codeValue, which.pos, "%s.publishers is %s, and has to be all or one", path, quote(word))
		p.list[len(p.list)-1].Hint = Suggest(word, publishers)
	}
}
