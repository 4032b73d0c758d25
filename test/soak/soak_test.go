//go:build linux

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/test/witness"
)

// TestMain lets the test binary be its own child, as the program is.
func TestMain(m *testing.M) {
	witness.Child()
	os.Exit(m.Run())
}

// A short soak: every kind of fault may strike, and the ledger is clean.
func TestSoak(t *testing.T) {
	for _, seed := range []uint64{7} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		var out strings.Builder
		err := run(ctx, &out, 8*time.Second, seed, false)
		require.NoError(t, err, out.String())
	}
}
