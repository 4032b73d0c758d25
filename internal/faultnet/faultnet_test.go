package faultnet_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluicenet/sluice/internal/faultnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo returns a link to a server that sends back what it gets.
func echo(t *testing.T) *faultnet.Link {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	l, err := faultnet.Listen()
	require.NoError(t, err)
	t.Cleanup(l.Close)
	l.To(server.Addr().String())
	return l
}

func dial(t *testing.T, l *faultnet.Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

func exchange(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestPasses(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "hello")
	require.Equal(t, 1, l.Open())
	require.Equal(t, 1, l.Accepted())
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	rest, err := io.ReadAll(c)
	require.NoError(t, err, "a side that closes well is passed on as that")
	require.Empty(t, rest)
	require.Eventually(t, func() bool { return l.Open() == 0 }, 5*time.Second, time.Millisecond)
}

func TestCut(t *testing.T) {
	l := echo(t)
	a, b := dial(t, l), dial(t, l)
	exchange(t, a, "a")
	exchange(t, b, "b")
	require.Equal(t, 2, l.Cut())
	for _, c := range []net.Conn{a, b} {
		_, err := io.ReadAll(c)
		require.Error(t, err, "reset, not closed well")
	}
	require.Zero(t, l.Open())
	exchange(t, dial(t, l), "again")
}

func TestCutAfter(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.CutAfter(15)
	_, err := c.Write([]byte("0123456789"))
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	require.Error(t, err)
	require.Less(t, len(got), 10, "ten go up, and not all of them come back")
	exchange(t, dial(t, l), "it happens once")
}

func TestRefuseAndHeal(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.Refuse()
	_, err := io.ReadAll(c)
	require.Error(t, err)
	if c, err := net.Dial("tcp", l.Addr()); err == nil {
		_, err = io.ReadAll(c)
		require.Error(t, err)
		require.NoError(t, c.Close())
	}
	l.Heal()
	exchange(t, dial(t, l), "y")
	require.Equal(t, 2, l.Accepted())
}

func TestStall(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.Stall(false, true)
	_, err := c.Write([]byte("y"))
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, error(errTimeout(err)), "silence, and no end")
	require.Equal(t, 1, l.Open())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	l.Heal()
	got := make([]byte, 1)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
	l.Stall(true, true)
	require.Equal(t, 1, l.Cut(), "what is stalled can be cut")
}

// errTimeout returns err when it is a timeout.
func errTimeout(err error) error {
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return err
	}
	return io.ErrUnexpectedEOF
}

func TestDelay(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.Delay(20 * time.Millisecond)
	begin := time.Now()
	exchange(t, c, "y")
	require.GreaterOrEqual(t, time.Since(begin), 40*time.Millisecond, "there and back")
}
