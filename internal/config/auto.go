package config

import (
	"math"
	"reflect"
)

// Auto are the bounds of a demand that the consumer sizes by itself. What is 0 is not
// given.
type Auto struct {
	Min, Max int
	MaxBytes int64
}

// within returns n, or the bound that it is beyond.
func (a *Auto) within(n int) int {
	switch {
	case a == nil:
		return n
	case a.Max > 0:
		n = min(n, a.Max)
	default:
		n = min(n, math.MaxInt32)
	}
	return max(n, a.Min)
}

// sizes reads auto_demand: true, or a mapping with bounds.
func (f *From) sizes(p *problems, path string, v *value) {
	if !v.given() {
		return
	}
	path += ".auto_demand"
	if v.kind == scalar {
		on := false
		decoder{p}.decode(v, path, reflect.ValueOf(&on).Elem())
		if on {
			f.Auto = &Auto{}
			f.begins(p, path, v)
		}
		return
	}
	bounds := struct {
		Min      *int   `yaml:"min"`
		Max      *int   `yaml:"max"`
		MaxBytes *int64 `yaml:"max_bytes"`
	}{}
	decoder{p}.decode(v, path, reflect.ValueOf(&bounds).Elem())
	if v.kind != mapping {
		return
	}
	f.Auto = &Auto{}
	if n := bounds.Min; n != nil {
		if f.Auto.Min = *n; *n < 1 || *n > math.MaxInt32 {
			p.add(codeValue, v.locate(v.pos, "min"), "%s.min is %d, and has to be from 1 to %d", path, *n, math.MaxInt32)
		}
	}
	if n := bounds.Max; n != nil {
		if f.Auto.Max = *n; *n < 1 || *n > math.MaxInt32 {
			p.add(codeValue, v.locate(v.pos, "max"), "%s.max is %d, and has to be from 1 to %d", path, *n, math.MaxInt32)
		}
	}
	if n := bounds.MaxBytes; n != nil {
		if f.Auto.MaxBytes = *n; *n < 1 {
			p.add(codeValue, v.locate(v.pos, "max_bytes"), "%s.max_bytes is %d, and has to be at least 1", path, *n)
		}
	}
	if bounds.Min != nil && bounds.Max != nil && *bounds.Min > *bounds.Max {
		p.add(codeValue, v.locate(v.pos, "min"), "%s.min is %d, and has to be at most max, which is %d", path, f.Auto.Min, f.Auto.Max)
	}
	f.begins(p, path, v)
}

// begins checks that it can begin with max_demand, where that is given.
func (f *From) begins(p *problems, path string, v *value) {
	if most := f.MaxDemand; most != nil && *most != f.Auto.within(*most) {
		p.add(codeValue, v.pos, "%s does not allow what it begins with, a max_demand of %d", path, *most)
	}
}
