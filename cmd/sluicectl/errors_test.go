package main

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var verbs = [][]string{{"nodes"}, {"outlets"}, {"stages"}, {"subs"}, {"tap", "numbers"}}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"nodes", "a"}, "error: nodes takes no arguments, not \"a\"\n  try: sluicectl nodes --help\n"},
		{[]string{"nodes", "--bogus"}, "error: unknown flag: --bogus\n  try: sluicectl nodes --help\n"},
		{[]string{"subs", "-o", "xml"}, "error: invalid argument \"xml\" for \"-o, --output\" flag: want table or json\n  try: sluicectl subs --help\n"},
		{[]string{"tap"}, "error: tap takes the name of one outlet\n  try: sluicectl tap --help\n"},
		{[]string{"tap", "numbers", "-n", "-1"}, "error: --limit must not be negative\n  try: sluicectl tap --help\n"},
		{[]string{"nodes", "-s", "10.0.3.11"}, "error: the server address \"10.0.3.11\" is not HOST:PORT\n  try: sluicectl nodes --help\n"},
		{[]string{"version", "-s", "a:b"}, "error: the server address \"a:b\" is not HOST:PORT\n  try: sluicectl version --help\n"},
		{[]string{"nodes", "--timeout", "0s"}, "error: --timeout must be more than 0\n  try: sluicectl nodes --help\n"},
		{[]string{"members"}, "error: unknown command \"members\" for \"sluicectl\"\n\nDid you mean this?\n\tnodes\n  try: sluicectl --help\n"},
	} {
		require.Equal(t, result{code: exitUsage, stderr: test.stderr}, sluicectl(t, test.args...))
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help", "subs"}, {"completion", "bash"}} {
		got := sluicectl(t, args...)
		require.Equal(t, exitOK, got.code)
		require.NotEmpty(t, got.stdout)
		require.Empty(t, got.stderr)
	}
}

func TestServerDown(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	want := "error: cannot reach a node at " + address + "\n" +
		"  why: dial tcp " + address + ": connect: connection refused\n" +
		"  try: name a node that runs, with --server HOST:PORT or in SLUICE_SERVER\n"

	for _, verb := range verbs {
		require.Equal(t, result{code: exitError, stderr: want}, sluicectl(t, append(verb, "-s", address)...))
	}
	got := sluicectl(t, "version", "-s", address)
	require.Equal(t, exitError, got.code)
	require.Equal(t, want, got.stderr)
	require.Contains(t, got.stdout, "sluicectl  client", "its own version it knows")
}

// Something listens there and never says a word.
func TestServerSilent(t *testing.T) {
	address := listen(t).Addr().String()
	for _, verb := range verbs {
		got := sluicectl(t, append(verb, "-s", address, "--timeout", "20ms")...)
		require.Equal(t, exitError, got.code)
		require.Empty(t, got.stdout)
		require.Regexp(t, "^error: no answer from "+address+" within 20ms\n  why: .+\n  try: ask another node .+\n$", got.stderr)
	}
}

func TestServerSaysNo(t *testing.T) {
	for code, what := range map[codes.Code]string{
		codes.Unimplemented:    "127.0.0.1:N does not understand the question",
		codes.PermissionDenied: "127.0.0.1:N refuses to answer",
		codes.Internal:         "127.0.0.1:N answered with an error (Internal)",
	} {
		node := &fakeNode{err: status.Error(code, "because\nof\x1b[31m that")}
		address := node.serve(t)
		got := sluicectl(t, "nodes", "-s", address)
		require.Equal(t, exitError, got.code)
		require.Empty(t, got.stdout)
		got.stderr = strings.ReplaceAll(got.stderr, address, "127.0.0.1:N")
		require.Regexp(t, "^error: "+regexp.QuoteMeta(what)+"\n  why: because of \\[31m that\n  try: .+\n$", got.stderr)
	}
}

func TestServerFromEnvironment(t *testing.T) {
	address := cluster().serve(t)
	env := func(name string) string {
		return map[string]string{"SLUICE_SERVER": address}[name]
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitPartial, run(t.Context(), []string{"nodes"}, &stdout, &stderr, env))

	stderr.Reset()
	require.Equal(t, exitUsage, run(t.Context(), []string{"nodes", "-s", "flag"}, &stdout, &stderr, env), "the flag counts more")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"nodes", "-s", listen(t).Addr().String()}, &stdout, &stderr, noEnv)
	require.Equal(t, exitError, code)
	require.Regexp(t, `^error: interrupted before 127\.0\.0\.1:\d+ answered\n$`, stderr.String())
}

func TestVersionNeedsNoNode(t *testing.T) {
	got := sluicectl(t, "version", "--client", "-o", "json")
	require.Equal(t, exitOK, got.code)
	require.Empty(t, got.stderr)
	require.Contains(t, got.stdout, `"go_version": "`+runtime.Version()+`"`)
}
