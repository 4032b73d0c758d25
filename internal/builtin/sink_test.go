package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

func TestSinkFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	read := func() string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(content)
	}
	require.NoError(t, feed(t, one(t, Env{}, "{sink: file, from: x, with: {path: "+path+"}}"), "a", "", "b\r"))
	require.Equal(t, "a\n\nb\r\n", read())
	require.NoError(t, feed(t, one(t, Env{}, "{sink: file, from: x, with: {path: "+path+", append: true}}"), "c"))
	require.Equal(t, "a\n\nb\r\nc\n", read())
	require.NoError(t, feed(t, one(t, Env{}, "{sink: file, from: x, with: {path: "+path+"}}")))
	require.Empty(t, read(), "truncated, though nothing came")

	long := strings.Repeat("x", writeAt)
	require.NoError(t, feed(t, one(t, Env{}, "{sink: file, from: x, with: {path: "+path+"}}"), "a", long, long+"b", "c"))
	require.Equal(t, "a\n"+long+"\n"+long+"b\nc\n", read())
}

// When a handler returns, the system has everything.
func TestAckedIsWritten(t *testing.T) {
	out := &buffer{}
	w := &lineWriter{to: out}
	for i := 1; i < 1000; i += 100 {
		events := make([]string, i)
		before := len(out.String())
		require.NoError(t, w.consume(t.Context(), events))
		require.Len(t, out.String(), before+i)
	}
}

func TestSinkFileThatCannotBeOpened(t *testing.T) {
	s := one(t, Env{}, "{sink: file, from: x, with: {path: "+t.TempDir()+"/no/out.txt}}")
	require.ErrorIs(t, s.Open(t.Context()), os.ErrNotExist)
	require.NoError(t, s.Close())
}

func TestFullDisk(t *testing.T) {
	for _, event := range []string{"a", strings.Repeat("x", 3*writeAt)} {
		err := feed(t, one(t, Env{}, "{sink: file, from: x, with: {path: /dev/full}}"), event, event)
		require.EqualError(t, err, `stage "s": write /dev/full: no space left on device`)
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
}

func TestStdout(t *testing.T) {
	var out buffer
	require.NoError(t, feed(t, one(t, Env{Stdout: &out}, "{sink: stdout, from: x}"), "a", "b"))
	require.Equal(t, "a\nb\n", out.String())
}

func TestClosedStdout(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	defer w.Close()
	err = feed(t, one(t, Env{Stdout: w}, "{sink: stdout, from: x}"), "a")
	require.EqualError(t, err, `stage "s": write to stdout: broken pipe`)
	require.ErrorAs(t, err, new(*Failure))
}

// Somebody who holds a pipe open and does not read does not hold up the end.
func TestStuckStdout(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	lines := &lineWriter{to: w}
	require.ErrorIs(t, lines.consume(ctx, []string{strings.Repeat("x", 1<<20)}), context.DeadlineExceeded)
}

func TestSinkAtARate(t *testing.T) {
	for _, perSecond := range []int{1, 7, 1000} {
		synctest.Test(t, func(t *testing.T) {
			var out buffer
			begin := time.Now()
			err := feed(t, one(t, Env{Stdout: &out}, fmt.Sprintf("{sink: stdout, from: x, with: {rate: %d}}", perSecond)), make([]string, 10*perSecond)...)
			require.NoError(t, err)
			require.InDelta(t, 10, time.Since(begin).Seconds(), 1.01)
			require.Len(t, out.String(), 10*perSecond)
		})
	}
}

// What is slow shows what it has: an event does not wait for the next one.
func TestRateDoesNotHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		s := one(t, Env{Stdout: &out}, "{sink: stdout, from: x, with: {rate: 1}}")
		source := stage.NewSource(func(context.Context, int) ([]string, error) { return []string{"a", "b", "c"}, stop })
		stage.Connect(source, s.Inlet)
		done := make(chan error, 1)
		go func() { done <- stage.Run(t.Context(), source, s.Runner) }()
		synctest.Wait()
		require.Equal(t, "a\n", out.String())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "a\nb\n", out.String())
		require.NoError(t, <-done)
	})
}

// A sink that is slow on purpose stops all the same when it has to.
func TestRateStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lineWriter{to: &buffer{}, limit: limiter(0.01)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.consume(ctx, []string{"a", "b"}), context.DeadlineExceeded)
	})
}
