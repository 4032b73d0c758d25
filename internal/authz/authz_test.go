package authz

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAllow(t *testing.T) {
	rules := Rules{
		{Identities: []string{"spiffe://x/orders-*"}, May: []Verb{Publish}, Outlets: []string{"orders.*"}},
		{Identities: []string{"spiffe://x/*", "audit"}, May: []Verb{Subscribe, Tap}, Outlets: []string{"orders.raw", "bills"}},
		{Identities: []string{"ops"}, May: []Verb{Administer}},
		{Identities: []string{"root"}, May: []Verb{Subscribe, Publish, Tap, Administer}, Outlets: []string{"*"}},
	}
	for _, r := range rules {
		require.NoError(t, r.Check())
	}
	for _, test := range []struct {
		who    string
		verb   Verb
		outlet string
		want   bool
	}{
		{"spiffe://x/orders-1", Publish, "orders.raw", true},
		{"spiffe://x/orders-1", Publish, "bills", false},
		{"spiffe://y/orders-1", Publish, "orders.raw", false},
		{"spiffe://x/bills", Publish, "orders.raw", false},
		{"spiffe://x/bills", Subscribe, "orders.raw", true},
		{"spiffe://x/bills", Subscribe, "orders.rich", false},
		{"audit", Subscribe, "bills", true},
		{"audit", Tap, "bills", true},
		{"audit", Administer, "", false},
		{"ops", Administer, "", true},
		{"ops", Tap, "bills", false},
		{"root", Administer, "", true},
		{"root", Publish, "anything", true},
		{"", Subscribe, "bills", false},
		{"rooted", Subscribe, "bills", false},
	} {
		require.Equal(t, test.want, rules.Allow(test.who, test.verb, test.outlet), "%+v", test)
	}
	// Without rules everybody may do everything; an empty one allows nothing.
	require.True(t, Rules(nil).Allow("anybody", Publish, "x"))
	require.False(t, Rules{{}}.Allow("anybody", Publish, "x"))
}

func TestCheck(t *testing.T) {
	for says, r := range map[string]Rule{
		"it needs identities":  {May: []Verb{Tap}, Outlets: []string{"*"}},
		"it needs may":         {Identities: []string{"*"}},
		`it allows "read"`:     {Identities: []string{"*"}, May: []Verb{"read"}},
		"it needs outlets":     {Identities: []string{"*"}, May: []Verb{Subscribe, Administer}},
		"it names outlets":     {Identities: []string{"*"}, May: []Verb{Administer}, Outlets: []string{"*"}},
		"it needs identities:": {Identities: []string{"a", ""}, May: []Verb{Administer}},
	} {
		require.ErrorContains(t, r.Check(), says)
	}
}

// A glob means what the regular expression means that is made of it.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab*]{0,6}`).Draw(t, "glob")
		// What matches, or would but for what comes before or after it.
		var s string
		for _, c := range glob {
			if c == '*' {
				s += rapid.StringMatching(`[ab]{0,3}`).Draw(t, "any")
			} else {
				s += string(c)
			}
		}
		around := rapid.StringMatching(`[ab]?`)
		s = around.Draw(t, "before") + s + around.Draw(t, "after")
		parts := strings.Split(glob, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile(`^` + strings.Join(parts, `.*`) + `$`).MatchString(s)
		require.Equal(t, want, Match(glob, s))
	})
}
