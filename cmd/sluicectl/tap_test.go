package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// endless is an outlet that does not end, with events 1, 2, 1, 2...
func endless(_ *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
	for i := 0; ; i++ {
		if err := s.Send(&sluicev1.TapResponse{Node: "a", Codec: "json", Event: []byte{byte('1' + i%2)}, Missed: 1}); err != nil {
			return err
		}
	}
}

// A node that shows more than it was told to is not believed.
func TestTapLimit(t *testing.T) {
	address := (&fakeNode{tap: endless}).serve(t)
	got := sluicectl(t, "tap", "numbers", "-n", "3", "-s", address)
	require.Equal(t, result{code: exitOK, stdout: "1\n2\n1\n", stderr: "numbers: 3 shown, 3 missed\n"}, got)
}

// A node that offers the outlet and cannot be tapped is named, not left out.
func TestTapNamesWhomItMisses(t *testing.T) {
	node := &fakeNode{tap: func(_ *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		if err := s.Send(&sluicev1.TapResponse{Unreachable: []*sluicev1.Unreachable{{Node: "b", Address: "127.0.0.1:7302", Error: "no answer"}}}); err != nil {
			return err
		}
		return s.Send(&sluicev1.TapResponse{Node: "a", Codec: "text", Event: []byte("hello")})
	}}
	got := sluicectl(t, "tap", "numbers", "-n", "1", "-s", node.serve(t))
	require.Equal(t, result{
		code: exitPartial, stdout: "hello\n",
		stderr: "node b (127.0.0.1:7302) did not answer: no answer\nnumbers: 1 shown, 0 missed\n",
	}, got)
}

func TestTapAsksForWhatItShows(t *testing.T) {
	var asked *sluicev1.TapRequest
	node := &fakeNode{tap: func(r *sluicev1.TapRequest, _ grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		asked = r
		return nil
	}}
	got := sluicectl(t, "tap", "numbers", "--limit", "7", "-s", node.serve(t))
	require.Equal(t, exitOK, got.code)
	require.Equal(t, "numbers", asked.GetOutlet())
	require.Equal(t, int64(7), asked.GetLimit())
}

// interrupter is a terminal whose user leaves at the first line.
type interrupter struct {
	bytes.Buffer
	leave func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	defer i.leave()
	return i.Buffer.Write(p)
}

func TestTapInterrupted(t *testing.T) {
	left := make(chan struct{})
	address := (&fakeNode{tap: func(_ *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		defer close(left)
		if err := s.Send(&sluicev1.TapResponse{Codec: "text", Event: []byte("one")}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}).serve(t)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := &interrupter{leave: cancel}
	var stderr bytes.Buffer
	code := run(ctx, []string{"tap", "words", "-s", address}, stdout, &stderr, noEnv)
	require.Equal(t, exitOK, code)
	require.Equal(t, "one\n", stdout.String())
	require.Equal(t, "words: 1 shown, 0 missed\n", stderr.String())
	<-left // the node is told
}

// The timeout is for the connection: an event may come an hour later.
func TestTapOutlivesItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{tap: func(_ *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
			<-time.After(time.Hour)
			return s.Send(&sluicev1.TapResponse{Codec: "text", Event: []byte("late")})
		}}
		l := bufconn.Listen(1 << 16)
		s := grpc.NewServer()
		sluicev1.RegisterAdminServiceServer(s, node)
		go func() { _ = s.Serve(l) }()
		defer s.Stop()

		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr, env: noEnv, dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return l.DialContext(ctx)
		}}
		require.Equal(t, exitOK, a.run(t.Context(), []string{"tap", "words"}), stderr.String())
		require.Equal(t, "late\n", stdout.String())
	})
}

func TestTapUnknownOutlet(t *testing.T) {
	address := (&fakeNode{tap: func(*sluicev1.TapRequest, grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		return status.Error(codes.NotFound, "no node offers it")
	}}).serve(t)
	require.Equal(t, result{
		code: exitError,
		stderr: "error: there is no outlet \"nubmers\"\n" +
			"  why: no node offers it\n" +
			"  try: see what there is with sluicectl outlets\n",
	}, sluicectl(t, "tap", "nubmers", "-s", address))
}

func TestTapBreaks(t *testing.T) {
	address := (&fakeNode{tap: func(_ *sluicev1.TapRequest, s grpc.ServerStreamingServer[sluicev1.TapResponse]) error {
		if err := s.Send(&sluicev1.TapResponse{Codec: "text", Event: []byte("one"), Missed: 5}); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "the node is leaving")
	}}).serve(t)
	require.Equal(t, result{
		code:   exitError,
		stdout: "one\n",
		stderr: "words: 1 shown, 5 missed\n" +
			"error: the connection to " + address + " is lost\n" +
			"  why: the node is leaving\n" +
			"  try: tap again, or ask another node with --server HOST:PORT\n",
	}, sluicectl(t, "tap", "words", "-s", address))
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteFails(t *testing.T) {
	node := cluster()
	node.tap = endless
	address := node.serve(t)
	for _, verb := range verbs {
		for _, format := range []string{"table", "json"} {
			var stderr bytes.Buffer
			code := run(t.Context(), append(verb, "-s", address, "-o", format), fullDisk{}, &stderr, noEnv)
			require.Equal(t, exitError, code)
			require.Equal(t, "error: no space left on device\n", stderr.String())
		}
	}
}

func TestCompletion(t *testing.T) {
	address := cluster().serve(t)
	got := sluicectl(t, "__complete", "tap", "--server", address, "")
	require.Contains(t, got.stdout, "numbers\norders\n:4\n")
	got = sluicectl(t, "__complete", "nodes", "-o", "")
	require.Contains(t, got.stdout, "table\njson\n:4\n")
}
