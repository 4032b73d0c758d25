package faultnet_test

import (
	"io"
	"net"
	"os"
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
	silent(t, c)
	require.Equal(t, 1, l.Open())
	l.Heal()
	got := make([]byte, 1)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
	l.Stall(true, true)
	require.Equal(t, 1, l.Cut(), "what is stalled can be cut")
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

func TestCutOldest(t *testing.T) {
	l := echo(t)
	require.False(t, l.CutOldest(), "there is none")
	a := dial(t, l)
	exchange(t, a, "a")
	b := dial(t, l)
	exchange(t, b, "b")
	require.True(t, l.CutOldest())
	_, err := io.ReadAll(a)
	require.Error(t, err)
	exchange(t, b, "the other one goes on")
	require.Equal(t, 1, l.Open())
}

func TestHalfOpen(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.Stall(true, false)
	_, err := c.Write([]byte("y"))
	require.NoError(t, err)
	silent(t, c)
	l.Heal()
	got := make([]byte, 1)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "y", string(got), "late, and not lost")
}

func TestFreeze(t *testing.T) {
	for _, way := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		l := echo(t)
		c := dial(t, l)
		exchange(t, c, "x")
		l.Freeze(way[0], way[1])
		_, err := c.Write([]byte("y"))
		require.NoError(t, err)
		silent(t, c)
		exchange(t, dial(t, l), "another one works")
		silent(t, c)
		l.Heal()
		got := make([]byte, 1)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, "y", string(got), "late, and not lost")
	}
}

func TestDrop(t *testing.T) {
	l := echo(t)
	before := dial(t, l)
	exchange(t, before, "x")
	l.Drop()
	exchange(t, before, "those there are go on")
	c := dial(t, l)
	_, err := c.Write([]byte("y"))
	require.NoError(t, err)
	silent(t, c)
	require.Equal(t, 1, l.Accepted(), "it leads nowhere")
	l.Heal()
	_, err = io.ReadAll(c)
	require.Error(t, err, "reset")
	exchange(t, dial(t, l), "z")
	l.Drop()
	dial(t, l)
	l.Close() // leaves nothing behind
}

func TestThrottle(t *testing.T) {
	l := echo(t)
	c := dial(t, l)
	exchange(t, c, "x")
	l.Throttle(10_000)
	begin := time.Now()
	exchange(t, c, string(make([]byte, 1000)))
	require.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond, "a tenth of a second there, and one back")
	l.Throttle(1)
	_, err := c.Write([]byte("0123456789"))
	require.NoError(t, err)
	l.Heal()
	got := make([]byte, 10)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err, "what has waited passes at once")
}

// silent checks that nothing comes, for a moment, and that the connection stays.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "silence, and no end")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
}
