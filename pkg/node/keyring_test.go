package node

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func key(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func ring(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, lines...)
	return path
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".next", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(path+".next", path))
}

func TestReadKeyring(t *testing.T) {
	keys, err := ReadKeyring(ring(t, "# made today", "", key(1)+" # the new one", "  "+key(2)))
	require.NoError(t, err)
	require.Equal(t, [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}, keys)
	for says, lines := range map[string][]string{
		"there is no key in it":                 {"# nothing"},
		":2: this is not base64":                {key(1), "secret!"},
		":1: the key has 3 bytes, and needs 16": {"AAAA"},
	} {
		path := ring(t, lines...)
		_, err := ReadKeyring(path)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
		err = testNode("a", Config{Keyring: path}).Start(t.Context(), nil)
		require.ErrorIs(t, err, ErrConfig)
	}
	require.ErrorIs(t, testNode("a", Config{Keyring: "missing"}).Start(t.Context(), nil), ErrConfig)
}

// Whatever a ring holds, it holds what the file says afterwards.
func TestTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string) (keys [][]byte) {
			for _, b := range rapid.SliceOfNDistinct(rapid.ByteRange(1, 6), 1, 5, rapid.ID[byte]).Draw(t, label) {
				keys = append(keys, bytes.Repeat([]byte{b}, 16))
			}
			return keys
		}
		before, after := some("before"), some("after")
		r, err := memberlist.NewKeyring(before, before[0])
		require.NoError(t, err)
		_, err = turn(r, after)
		require.NoError(t, err)
		require.Equal(t, after[0], r.GetPrimaryKey())
		require.ElementsMatch(t, after, r.GetKeys())
		changed, err := turn(r, after)
		require.NoError(t, err)
		require.False(t, changed)
	})
}

// T15: keys are replaced on all nodes while they run, one step after the other, and
// nobody loses sight of anybody.
func TestKeyringRotation(t *testing.T) {
	t.Parallel()
	var nodes []*Node
	var logs [3]logged
	var files []string
	for i, name := range []string{"a", "b", "c"} {
		c := Config{Keyring: ring(t, key(1)), Logger: logs[i].logger()}
		if i > 0 {
			c.Join = join(nodes[0])
		}
		n := testNode(name, c)
		start(t, n)
		nodes, files = append(nodes, n), append(files, c.Keyring)
	}
	whole := func() bool {
		for _, n := range nodes {
			if others(n) != 2 {
				return false
			}
		}
		return true
	}
	eventually(t, "they know each other", whole)
	for _, step := range [][]string{{key(1), key(2)}, {key(2), key(1)}, {key(2)}} {
		for i, path := range files {
			write(t, path, step...)
			eventually(t, "it is read", func() bool {
				keys := nodes[i].cluster.ring.GetKeys()
				return len(keys) == len(step) && base64.StdEncoding.EncodeToString(keys[0]) == step[0]
			})
		}
		// News still gets around.
		time.Sleep(100 * time.Millisecond)
		require.True(t, whole())
	}
	// Who comes with the new key is let in.
	d := testNode("d", Config{Keyring: ring(t, key(2)), Join: join(nodes[0])})
	start(t, d)
	eventually(t, "it is let in", func() bool { return others(d) == 3 })
	for i := range logs {
		require.NotContains(t, logs[i].String(), "node gone")
	}
}

// Who has another key, none, or one where nobody else has, does not get in, and both
// sides say so, with what to look at.
func TestOtherKeysDoNotJoin(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]struct{ there, own []string }{
		"another": {[]string{key(1)}, []string{key(2)}},
		"none":    {[]string{key(1)}, nil},
		"only it": {nil, []string{key(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logs [2]logged
			with := func(i int, lines []string) Config {
				c := Config{Logger: logs[i].logger()}
				if lines != nil {
					c.Keyring = ring(t, lines...)
				}
				return c
			}
			a := testNode("a", with(0, keys.there))
			start(t, a)
			c := with(1, keys.own)
			c.Join = join(a)
			b := testNode("b", c)
			start(t, b)
			eventually(t, "the one that joins says why it cannot", func() bool { return strings.Contains(logs[1].String(), "code=SL0201") })
			eventually(t, "the other one says whom it refuses", func() bool { return strings.Contains(logs[0].String(), "rule=gossip") })
			b.cluster.join(join(a), nil)
			require.Equal(t, 1, strings.Count(logs[1].String(), "level=WARN"), "said once: %s", logs[1].String())
			require.Contains(t, logs[1].String(), "with the same gossip key?")
			require.Contains(t, logs[0].String(), "the keys of one keyring")
			require.Zero(t, others(a))
			require.Zero(t, others(b))
		})
	}
}

// others is how many others a node knows that are there.
func others(n *Node) (count int) {
	all, _ := n.cluster.view()
	for _, m := range all {
		if !m.gone {
			count++
		}
	}
	return count
}

// What is open to others is said at the start, once.
func TestWarnsOfWhatIsOpen(t *testing.T) {
	t.Parallel()
	var log logged
	a := testNode("a", Config{Listen: "127.0.0.1:0", Logger: log.logger()})
	start(t, a)
	require.NotContains(t, log.String(), "level=WARN")
	a.warnOpen(true, true)
	require.Equal(t, 1, strings.Count(log.String(), "code=SL0205"))
	require.Equal(t, 1, strings.Count(log.String(), "code=SL0207"))
}
