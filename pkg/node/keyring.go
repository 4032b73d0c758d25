package node

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
)

// ReadKeyring reads the file of [Config].Keyring and returns its keys, the primary one
// first. It is for whoever checks a configuration before a node is made of it.
func ReadKeyring(path string) ([][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		// The key itself is not said: errors end up in logs.
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: this is not base64: make a key with openssl rand -base64 32", path, n)
		}
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("%s:%d: the key has %d bytes, and needs 16, 24 or 32: make one with openssl rand -base64 32", path, n, len(key))
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: there is no key in it: make one with openssl rand -base64 32", path)
	}
	return keys, nil
}

// openKeyring makes memberlist's keyring of the file.
func (n *Node) openKeyring() (*memberlist.Keyring, error) {
	if n.config.Keyring == "" {
		return nil, nil
	}
	keys, err := ReadKeyring(n.config.Keyring)
	if err != nil {
		return nil, fmt.Errorf("%w: Keyring: %w", ErrConfig, err)
	}
	return memberlist.NewKeyring(keys, keys[0])
}

// keepKeyring goes on reading the file.
func (n *Node) keepKeyring(ring *memberlist.Keyring) {
	if ring == nil {
		return
	}
	n.reload("Keyring", func() (changed bool, err error) {
		keys, err := ReadKeyring(n.config.Keyring)
		if err != nil {
			return false, err
		}
		return turn(ring, keys)
	})
}

// turn gives a ring these keys, the first one as the primary, and reports whether that
// has changed anything.
func turn(ring *memberlist.Keyring, keys [][]byte) (changed bool, err error) {
	before := slices.Clone(ring.GetKeys())
	is := func(key []byte) func([]byte) bool { return func(k []byte) bool { return bytes.Equal(k, key) } }
	same := len(before) == len(keys) && bytes.Equal(before[0], keys[0])
	for _, k := range keys {
		same = same && slices.ContainsFunc(before, is(k))
	}
	if same {
		return false, nil
	}
	add := func() (err error) {
		for _, k := range keys {
			err = errors.Join(err, ring.AddKey(k))
		}
		return err
	}
	if err := errors.Join(add(), ring.UseKey(keys[0])); err != nil {
		return false, err
	}
	// A ring that removes a key from its midst moves the others while they are read. So
	// keys go from its end, those before the first that is not wanted stay, and those
	// behind it come back: a packet that meets the gap is sent again by gossip.
	now := slices.Clone(ring.GetKeys())
	unwanted := slices.IndexFunc(now, func(k []byte) bool { return !slices.ContainsFunc(keys, is(k)) })
	if unwanted < 0 {
		return true, nil
	}
	for _, k := range slices.Backward(now[unwanted:]) {
		if err := ring.RemoveKey(k); err != nil {
			return true, err
		}
	}
	return true, add()
}
