//go:build linux

package harness

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostsAreOfOneProcess(t *testing.T) {
	taken, err := claim(random)
	require.NoError(t, err)
	defer taken.mark.Close()
	picks := []netip.Addr{taken.addr, taken.addr, random()}
	other, err := claim(func() netip.Addr {
		next := picks[0]
		picks = picks[1:]
		return next
	})
	require.NoError(t, err)
	defer other.mark.Close()
	require.NotEqual(t, taken.addr, other.addr)
	_, err = claim(func() netip.Addr { return taken.addr })
	require.ErrorContains(t, err, "no host on loopback is free")
}

func TestAddressesAreGivenOnce(t *testing.T) {
	given := map[string]bool{}
	for range 20 {
		address, err := FreeAddress()
		require.NoError(t, err)
		require.False(t, given[address])
		given[address] = true
		require.True(t, strings.HasPrefix(address, "127."))
		for range 2 { // as a program that is killed and started again
			l, err := net.Listen("tcp", address)
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
	}
}

func TestWhoListensOnAllAddressesIsPassedBy(t *testing.T) {
	h, err := claim(random)
	require.NoError(t, err)
	defer h.mark.Close()
	all, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer all.Close()
	h.next = uint16(all.Addr().(*net.TCPAddr).Port)
	_, err = h.free()
	require.ErrorContains(t, err, "no free port") // it is beyond the last
}
