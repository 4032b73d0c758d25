package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

const dMissing = "node d (10.0.3.14:7301) did not answer: connection refused\n"

var goldens = []struct {
	file   string
	args   []string
	stderr string
	code   int
}{
	{"nodes.txt", []string{"nodes"}, dMissing, exitPartial},
	{"nodes.json", []string{"nodes", "-o", "json"}, dMissing, exitPartial},
	{"outlets.txt", []string{"outlets"}, dMissing, exitPartial},
	{"outlets.json", []string{"outlets", "-o", "json"}, dMissing, exitPartial},
	{"stages.txt", []string{"stages"}, dMissing, exitPartial},
	{"stages.json", []string{"stages", "-o", "json"}, dMissing, exitPartial},
	{"subs.txt", []string{"subs"}, dMissing, exitPartial},
	{"subs.json", []string{"subs", "-o", "json"}, dMissing, exitPartial},
	{"version.txt", []string{"version"}, dMissing + "the nodes run 2 versions: v0.3.0, v0.4.0\n", exitPartial},
	{"version.json", []string{"version", "-o", "json"}, dMissing + "the nodes run 2 versions: v0.3.0, v0.4.0\n", exitPartial},
	{"tap.txt", []string{"tap", "orders"}, "orders: 7 shown, 1207 missed\n", exitOK},
	{"tap.jsonl", []string{"tap", "orders", "-o", "json"}, "orders: 7 shown, 1207 missed\n", exitOK},
}

func TestGolden(t *testing.T) {
	node := cluster()
	address := node.serve(t)
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := &app{stdout: &stdout, stderr: &stderr, env: noEnv, client: clientBuild{
				Version: "v0.4.0", Revision: "0830ac5", GoVersion: "go1.26.0",
			}}
			code := a.run(t.Context(), append(g.args, "--server", address))

			require.Equal(t, g.stderr, stderr.String())
			require.Equal(t, g.code, code)
			require.Equal(t, int32(sluicev1.Scope_SCOPE_CLUSTER), node.scope.Swap(0), "one node answers for all")
			golden(t, g.file, stdout.String())
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// A cluster with nothing in it is answered in full: lists are empty, never null.
func TestNothing(t *testing.T) {
	address := (&fakeNode{
		nodes:   &sluicev1.ListNodesResponse{},
		outlets: &sluicev1.ListOutletsResponse{},
		stages:  &sluicev1.ListStagesResponse{Stages: []*sluicev1.StageInfo{{}}},
		subs:    &sluicev1.ListSubscriptionsResponse{Subscriptions: []*sluicev1.SubscriptionInfo{{}}},
		tap:     events(),
	}).serve(t)
	for _, verb := range []string{"nodes", "outlets", "stages", "subs", "version"} {
		t.Run(verb, func(t *testing.T) {
			got := sluicectl(t, verb, "-s", address, "-o", "json")
			require.Equal(t, exitOK, got.code)
			require.Empty(t, got.stderr)
			var document map[string]any
			require.NoError(t, json.Unmarshal([]byte(got.stdout), &document))
			require.Equal(t, []any{}, document["unreachable"])
			for key, value := range document {
				require.NotNil(t, value, key)
			}

			got = sluicectl(t, verb, "-s", address)
			require.Equal(t, exitOK, got.code)
			require.Empty(t, got.stderr)
		})
	}
	got := sluicectl(t, "stages", "-s", address, "-o", "json")
	require.Contains(t, got.stdout, `"discarded": {}`)

	got = sluicectl(t, "tap", "numbers", "-s", address)
	require.Equal(t, result{code: exitOK, stderr: "numbers: 0 shown, 0 missed\n"}, got)
}
