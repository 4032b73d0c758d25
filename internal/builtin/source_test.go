package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// stop is how a source of a test ends.
var stop = io.EOF

func TestFile(t *testing.T) {
	long := strings.Repeat("x", firstBuffer*3+1)
	for content, want := range map[string][]string{
		"":                    nil,
		"\n":                  {""},
		"a":                   {"a"},
		"a\n":                 {"a"},
		"a\nb":                {"a", "b"},
		"\n\na\n\n":           {"", "", "a", ""},
		"a\r\nb\r\n":          {"a\r", "b\r"},
		"\x00\xff\n\xfe\x01":  {"\x00\xff", "\xfe\x01"},
		long + "\nb\n" + long: {long, "b", long},
	} {
		got, err := collect(t, one(t, Env{}, fmt.Sprintf("{source: file, with: {path: %q}}", write(t, content))))
		require.NoError(t, err)
		require.Equal(t, want, got, "%.20q", content)
	}
}

func TestFileOfManyLines(t *testing.T) {
	var b strings.Builder
	for i := range 123_457 {
		fmt.Fprintln(&b, "line", i)
	}
	got, err := collect(t, one(t, Env{}, "{source: file, with: {path: "+write(t, b.String())+"}}"))
	require.NoError(t, err)
	require.Len(t, got, 123_457)
	require.Equal(t, b.String(), strings.Join(got, "\n")+"\n")
}

func TestLongLines(t *testing.T) {
	exact := strings.Repeat("x", 10)
	got, err := collect(t, one(t, Env{}, "{source: file, with: {max_line: 10, path: "+write(t, exact+"\n"+exact)+"}}"))
	require.NoError(t, err)
	require.Equal(t, []string{exact, exact}, got)

	for _, rest := range []string{"xxxxxxxxxxx", "xxxxxxxxxxx\n", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "\nc\n"} {
		path := write(t, "a\nb\n"+rest)
		got, err = collect(t, one(t, Env{}, "{source: file, with: {max_line: 10, path: "+path+"}}"))
		require.ErrorContains(t, err, `stage "s": `+path+`:3: the line is longer than 10 bytes`)
		require.ErrorAs(t, err, new(*Failure))
		require.Equal(t, []string{"a", "b"}, got, "what came before is emitted")
	}
}

// A file that is one endless line costs no more than max_line.
func TestEndlessLine(t *testing.T) {
	l := &lineReader{name: "zero", max: 1 << 20, in: direct{zeros{}}}
	events, err := l.produce(t.Context(), 10)
	require.EqualError(t, err, "zero:1: the line is longer than 1048576 bytes")
	require.Empty(t, events)
	require.LessOrEqual(t, len(l.buf), 1<<20+2)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	s := one(t, Env{}, "{source: file, with: {path: "+dir+"}}")
	require.EqualError(t, s.Open(t.Context()), `stage "s": `+dir+` is a directory`)
	s = one(t, Env{}, "{source: file, with: {path: "+dir+"/no}}")
	require.ErrorIs(t, s.Open(t.Context()), os.ErrNotExist)
	require.NoError(t, s.Close())
}

func TestReadError(t *testing.T) {
	broken := errors.New("the disk is gone")
	l := &lineReader{max: 100, in: direct{io.MultiReader(strings.NewReader("a\nb\nhal"), iotest.ErrReader(broken))}}
	events, err := l.produce(t.Context(), 10)
	require.ErrorIs(t, err, broken)
	require.Equal(t, []string{"a", "b"}, events, "half a line is none")

	l = &lineReader{max: 100, in: direct{reader(func([]byte) (int, error) { return 0, nil })}}
	_, err = l.produce(t.Context(), 10)
	require.ErrorIs(t, err, io.ErrNoProgress)
}

type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

// Whatever the pieces in which it arrives, and however much is asked for at once.
func TestLinesInPieces(t *testing.T) {
	const content = "a\nbc\n\ndef\r\nlast"
	for _, n := range []int{1, 2, 3, 100} {
		for name, in := range map[string]input{
			"direct":  direct{strings.NewReader(content)},
			"bytes":   direct{iotest.OneByteReader(strings.NewReader(content))},
			"eof":     direct{iotest.DataErrReader(strings.NewReader(content))},
			"patient": &patient{r: iotest.OneByteReader(strings.NewReader(content))},
			"at once": &patient{r: iotest.DataErrReader(strings.NewReader(content))},
		} {
			l := &lineReader{max: 10, in: in}
			var got []string
			for {
				events, err := l.produce(t.Context(), n)
				require.LessOrEqual(t, len(events), n, name)
				got = append(got, events...)
				if err == io.EOF { //nolint:errorlint // as a source has to return it
					break
				}
				require.NoError(t, err)
				require.NotEmpty(t, events, name)
			}
			require.Equal(t, []string{"a", "bc", "", "def\r", "last"}, got, name)
		}
	}
}

// The end comes with the last line, so that nobody has to ask for it.
func TestEndComesWithTheLastLine(t *testing.T) {
	l := &lineReader{max: 10, in: direct{strings.NewReader("a\nb\n")}}
	events, err := l.produce(t.Context(), 2)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"a", "b"}, events)
}

func TestReadsNoMoreThanIsAskedFor(t *testing.T) {
	read := 0
	content := strings.NewReader(strings.Repeat("line\n", 1<<20))
	l := &lineReader{max: 10, in: direct{reader(func(p []byte) (int, error) {
		n, err := content.Read(p)
		read += n
		return n, err
	})}}
	for range 20 {
		events, err := l.produce(t.Context(), 5)
		require.NoError(t, err)
		require.Len(t, events, 5)
	}
	require.LessOrEqual(t, read, firstBuffer)
}

func TestAllocations(t *testing.T) {
	l := &lineReader{max: 100, in: direct{strings.NewReader(strings.Repeat("a line of some length\n", 2_000_000))}}
	_, err := l.produce(t.Context(), 1)
	require.NoError(t, err)
	perCall := testing.AllocsPerRun(100, func() { _, _ = l.produce(t.Context(), 1000) })
	require.LessOrEqual(t, perCall, 1001.0, "the texts, and the slice that holds them")
}

func TestStdin(t *testing.T) {
	got, err := collect(t, one(t, Env{Stdin: strings.NewReader("a\nb\nc")}, "{source: stdin}"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, got)
}

// What is there goes on at once, also when more was asked for.
func TestStdinDoesNotWaitForMore(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	s := one(t, Env{Stdin: r}, "{source: stdin}")
	events := make(chan string, 10)
	sink := stage.NewSink(func(_ context.Context, batch []string) error {
		for _, e := range batch {
			events <- e
		}
		return nil
	})
	stage.Connect(s.Outlet, sink)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stage.Run(ctx, s.Runner, sink) }()
	for _, line := range []string{"a", "b"} {
		_, err := io.WriteString(w, line+"\nhal")
		require.NoError(t, err)
		require.Equal(t, line, strings.TrimPrefix(<-events, "hal"))
	}
	// It reads, and nothing comes. It stops all the same.
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// A pipe that nobody has opened for writing does not hold up anything.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	s := one(t, Env{}, "{source: file, with: {path: "+path+"}}")
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.WriteString("a\nb")
			_ = f.Close()
		}
	}()
	got, err := collect(t, s)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, got)

	s = one(t, Env{}, "{source: file, with: {path: "+path+"}}")
	require.NoError(t, s.Open(t.Context()))
	sink := stage.NewSink(func(context.Context, []string) error { return nil })
	stage.Connect(s.Outlet, sink)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, stage.Run(ctx, s.Runner, sink), context.DeadlineExceeded)
	// Let go of the read that was left behind.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestGenerate(t *testing.T) {
	got, err := collect(t, one(t, Env{}, "{source: generate, with: {count: 3}}"))
	require.NoError(t, err)
	require.Equal(t, []string{"event 1", "event 2", "event 3"}, got)

	got, err = collect(t, one(t, Env{}, "{source: generate, with: {count: 2, text: '{n}/{n}%d'}}"))
	require.NoError(t, err)
	require.Equal(t, []string{"1/1%d", "2/2%d"}, got)

	got, err = collect(t, one(t, Env{}, "{source: generate, with: {count: 100000, text: x}}"))
	require.NoError(t, err)
	require.Len(t, got, 100_000)
}

func TestGenerateAtARate(t *testing.T) {
	for _, perSecond := range []int{1, 7, 1000, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			count := 10 * perSecond
			begin := time.Now()
			got, err := collect(t, one(t, Env{}, fmt.Sprintf("{source: generate, with: {rate: %d, count: %d}}", perSecond, count)))
			require.NoError(t, err)
			require.Len(t, got, count)
			require.InDelta(t, 10, time.Since(begin).Seconds(), 1.01, "at %d/s", perSecond)
		})
	}
}

func TestGenerateWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := one(t, Env{}, "{source: generate, with: {rate: 10}}")
		got := 0
		sink := stage.NewSink(func(_ context.Context, batch []string) error {
			got += len(batch)
			return nil
		})
		stage.Connect(s.Outlet, sink)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		require.ErrorIs(t, stage.Run(ctx, s.Runner, sink), context.DeadlineExceeded)
		require.InDelta(t, 100, got, 2)
	})
}
