package authz

import (
	"fmt"
	"slices"
	"strings"
)

// A Verb is something to do.
type Verb string

// What there is to do.
const (
	// Subscribe: take events from an outlet.
	Subscribe Verb = "subscribe"
	// Publish: offer an outlet to others.
	Publish Verb = "publish"
	// Tap: look at the events of an outlet.
	Tap Verb = "tap"
	// Administer: ask a node what runs and who it is connected with. It is about
	// nodes, and no outlet.
	Administer Verb = "administer"
)

var verbs = []Verb{Subscribe, Publish, Tap, Administer}

// A Rule allows some identities to do something.
type Rule struct {
	// Identities are globs: * stands for any number of any characters.
	Identities []string
	// May is what they may do.
	May []Verb
	// Outlets are the outlets that they may do it with, globs as well. A rule that
	// only allows to administer has none; any other names at least one.
	Outlets []string
}

// Check says what makes no sense in a rule.
func (r Rule) Check() error {
	if len(r.Identities) == 0 || slices.Contains(r.Identities, "") {
		return fmt.Errorf("it needs identities: whom it allows something")
	}
	if len(r.May) == 0 {
		return fmt.Errorf("it needs may: what it allows, of %s", all())
	}
	about := false // it is about outlets
	for _, v := range r.May {
		if !slices.Contains(verbs, v) {
			return fmt.Errorf("it allows %q: there are %s", string(v), all())
		}
		about = about || v != Administer
	}
	switch {
	case about && (len(r.Outlets) == 0 || slices.Contains(r.Outlets, "")):
		return fmt.Errorf("it needs outlets: with which outlets that is allowed, such as \"orders.*\" or \"*\"")
	case !about && len(r.Outlets) > 0:
		return fmt.Errorf("it names outlets, and to administer is not about outlets")
	}
	return nil
}

func all() string {
	words := make([]string, len(verbs))
	for i, v := range verbs {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// Rules are what is allowed, in any order.
type Rules []Rule

// Allow reports whether identity may do v with an outlet, which is empty where the
// verb is about none.
func (rules Rules) Allow(identity string, v Verb, outlet string) bool {
	if len(rules) == 0 {
		return true
	}
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return slices.Contains(r.May, v) && matches(r.Identities, identity) && (v == Administer || matches(r.Outlets, outlet))
	})
}

func matches(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return Match(g, s) })
}

// Match reports whether s is what a glob means: * stands for any number of any
// characters, and everything else for itself.
func Match(glob, s string) bool {
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == s
	}
	s, ok := strings.CutPrefix(s, first)
	if !ok {
		return false
	}
	for {
		part, next, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, part)
		}
		// The first place is as good as any other: what comes after has the more room.
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s, rest = s[at+len(part):], next
	}
}
