package config

// anywhere is the one word that admin takes.
const anywhere = "anywhere"

// security checks who is let in. What the files hold is the business of whoever opens
// them.
func (c checker) security(f *File, admin string) {
	t := f.TLS
	switch given := (t != TLS{}); {
	case given && (t.Cert == "" || t.Key == "" || t.CA == "") && c.holds("tls"):
		c.p.add(codeSecurity, c.pos("tls"), "tls takes cert, key and ca, all three: both ends of a connection are verified")
	case !given && len(f.Authorize) > 0 && c.holds("tls"):
		c.p.add(codeSecurity, c.pos("authorize"), "authorize takes tls: without certificates nobody has an identity")
	}
	list := c.root.at("authorize")
	for i, r := range f.Authorize {
		if item := list.items[i]; item.kind == mapping {
			if err := r.Check(); err != nil {
				c.p.add(codeSecurity, item.pos, "authorize[%d]: %v", i, err)
			}
		}
	}
	switch {
	case !c.fits("admin"):
	case admin != anywhere:
		c.p.add(codeValue, c.pos("admin"), "admin %s is not known: it takes anywhere; without it, operators are answered on the machine of the node", quote(admin))
	case t != (TLS{}):
		c.p.add(codeSecurity, c.pos("admin"), "admin is for nodes without tls: with it, allow identities to administer in authorize")
	}
}
