package node

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
)

// What is guessed is a part of what comes back, whatever the subscriber says of its
// demand: it costs no more memory than that.
func TestGuessIsBounded(t *testing.T) {
	t.Parallel()
	for terms, last := range map[stage.Terms]int64{
		{MaxDemand: 10, MinDemand: 8}:              8,
		{MaxDemand: 10}:                            9,
		{MaxDemand: math.MaxInt64}:                 9,
		{MaxDemand: math.MaxInt64, MinDemand: -10}: 7,
		{MinDemand: 5}:                             7,
	} {
		v := &served[int]{terms: terms}
		tried := v.guess([]credit.Range{{First: 7, Last: 9}})
		for at := int64(5); at < 12; at++ {
			require.Equal(t, at >= 7 && at <= last, tried.Contains(at), "%+v: %d", terms, at)
		}
	}
}
