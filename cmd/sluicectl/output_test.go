package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

func TestAge(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		require.Equal(t, want, age(seconds(durationpb.New(d))))
	}
	f(-time.Second, "0ms")
	f(0, "0ms")
	f(850*time.Millisecond, "850ms")
	f(59*time.Second+999*time.Millisecond, "59s")
	f(3*time.Minute+12*time.Second, "3m12s")
	f(time.Hour, "1h0m")
	f(23*time.Hour+59*time.Minute, "23h59m")
	f(6*24*time.Hour+4*time.Hour, "6d4h")
	require.Empty(t, age(seconds(nil)))
}

func TestCount(t *testing.T) {
	require.Equal(t, "0", count(int64(0)))
	require.Equal(t, "9223372036854775806", count(int64(math.MaxInt64-1)))
	require.Equal(t, "unbounded", count(int64(math.MaxInt64)))
	require.Equal(t, "2147483647", count(int32(math.MaxInt32)))
}

func TestWord(t *testing.T) {
	require.Equal(t, "alive", word(sluicev1.NodeState_NODE_STATE_ALIVE, "NODE_STATE_"))
	require.Equal(t, "unknown", word(sluicev1.NodeState_NODE_STATE_UNSPECIFIED, "NODE_STATE_"))
	require.Equal(t, "unknown", word(sluicev1.NodeState(99), "NODE_STATE_"), "a newer node")
}

func TestTable(t *testing.T) {
	table := newTable(text("NAME"), number("N"), text("WHY"))
	table.add("größer", "7", "two\nlines\x1b")
	table.add("b", "1234", "")
	var out strings.Builder
	require.NoError(t, table.write(&out))
	require.Equal(t, ""+
		"NAME       N  WHY\n"+
		"größer     7  two lines\n"+
		"b       1234  -\n", out.String())
}

func TestDiscards(t *testing.T) {
	require.Equal(t, "0", discards(nil))
	require.Equal(t, "7 (overflow 5, too large 2)", discards(map[string]int64{"too large": 2, "overflow": 5}))
}
