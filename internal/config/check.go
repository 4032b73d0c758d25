package config

import "strings"

const (
	// maxName is what the wire has room for in a name.
	maxName = 255
	// maxNodeName is less: gossip carries the name of a node together with its
	// address and more, in 512 bytes.
	maxNodeName = 128
)

// checker says what is wrong with settings that are of the right type.
type checker struct {
	p    *problems
	root *value
}

func (c checker) check(f *File) {
	c.version(f.Version)
	c.name("node.name", f.Node.Name, maxNodeName)
	if !c.root.at("node", "name").given() && c.holds("node") {
		c.p.add(codeMissing, c.pos("node.name"),
			"node.name is required: it is how a cluster knows this node, so no other may have it")
	}
	if n := f.Node.MaxBytes; n != nil && *n < 1 {
		c.p.add(codeValue, c.pos("node.max_bytes"), "node.max_bytes is %d, and has to be at least 1", *n)
	}
	c.listen(f.Listen.GRPC)
	c.cluster(f.Cluster)
}

// pos finds a setting by its path.
func (c checker) pos(path string) Pos {
	return c.root.locate(Pos{1, 1}, strings.Split(path, ".")...)
}

// holds reports whether a section is what it should be, so that something can be
// missing in it.
func (c checker) holds(section string) bool {
	v := c.root.at(section)
	return !v.given() || v.kind == mapping
}

func (c checker) version(n int) {
	switch v := c.root.at("version"); {
	case !v.given():
		c.p.add(codeMissing, c.pos("version"), "version is required: this program reads version: %d", version)
	case n != version:
		c.p.add(codeValue, c.pos("version"), "version %d is not known: this program reads version: %d", n, version)
	}
}

// name checks a name if there is one.
func (c checker) name(path, name string, most int) {
	if !c.root.at(strings.Split(path, ".")...).given() {
		return
	}
	if wrong := badName(name, most); wrong != "" && c.fits(path) {
		c.p.add(codeValue, c.pos(path), "%s %s %s", path, quote(name), wrong)
	}
}

// fits reports whether a setting is a scalar; where it is not, that has been said.
func (c checker) fits(path string) bool {
	v := c.root.at(strings.Split(path, ".")...)
	return v != nil && v.kind == scalar
}

// badName says what is wrong with a name, if anything.
func badName(name string, most int) string {
	switch {
	case name == "":
		return "is no name: it is empty"
	case len(name) > most:
		return "is longer than " + itoa(most) + " bytes"
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return "has " + quote(string(r)) + " in it: names are of A-Z a-z 0-9 . _ -"
		}
	}
	return ""
}
