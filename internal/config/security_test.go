package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/authz"
)

func TestSecurity(t *testing.T) {
	const head = "version: 1\nnode: {name: a}\n"
	const files = "tls: {cert: c, key: k, ca: a}\n"
	f, err := Parse("f", []byte(head+files+`
cluster: {keyring: keys}
authorize:
  - {identities: ["*.test"], may: [subscribe, tap], outlets: ["orders.*"]}
  - {identities: [ops], may: [administer]}
`))
	require.NoError(t, err)
	require.Equal(t, TLS{"c", "k", "a"}, f.TLS)
	require.Equal(t, "keys", f.Cluster.Keyring)
	require.Equal(t, []authz.Rule{
		{Identities: []string{"*.test"}, May: []authz.Verb{authz.Subscribe, authz.Tap}, Outlets: []string{"orders.*"}},
		{Identities: []string{"ops"}, May: []authz.Verb{authz.Administer}},
	}, f.Authorize)
	f, err = Parse("f", []byte(head+"admin: anywhere\n"))
	require.NoError(t, err)
	require.True(t, f.AdminAnywhere)

	wrong(t, head+"tls: {cert: c}\n", `f:3:6: tls takes cert, key and ca, all three: both ends of a connection are verified [SL0116]`)
	wrong(t, head+"authorize: [{identities: [x], may: [administer]}]\n",
		`f:3:12: authorize takes tls: without certificates nobody has an identity [SL0116]`)
	wrong(t, head+files+"authorize: [{identities: [x], may: [administer]}, {identities: [x], may: [tap]}]\n",
		`f:4:51: authorize[1]: it needs outlets: with which outlets that is allowed, such as "orders.*" or "*" [SL0116]`)
	wrong(t, head+files+"authorize: [{identity: [x], may: [administer]}]\n",
		`f:4:13: authorize[0]: it needs identities: whom it allows something [SL0116]`,
		`f:4:14: unknown key "identity" in authorize[0], did you mean "identities"? [SL0103]`)
	wrong(t, head+files+"admin: anywhere\n", `f:4:8: admin is for nodes without tls: with it, allow identities to administer in authorize [SL0116]`)
	wrong(t, head+"admin: everywhere\n",
		`f:3:8: admin "everywhere" is not known: it takes anywhere; without it, operators are answered on the machine of the node [SL0108]`)
}
