package dispatch_test

import (
	"math"
	"slices"
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOrder covers DDX-02 and DDX-03: who is served is the first one in a plain list
// that is kept sorted by credit, where whoever changes goes behind its equals.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sub struct {
			id     dispatch.ID
			credit int64
		}
		var list []sub
		d, last := dispatch.Demand[int](), dispatch.ID(0)
		set := func(i int, to int64) {
			s := sub{list[i].id, to}
			list = slices.Delete(list, i, i+1)
			at := slices.IndexFunc(list, func(o sub) bool { return o.credit < to })
			if at < 0 {
				at = len(list)
			}
			list = slices.Insert(list, at, s)
		}
		anyone := func(t *rapid.T) int {
			if len(list) == 0 {
				t.Skip("nobody is there")
			}
			return rapid.IntRange(0, len(list)-1).Draw(t, "who")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				last++
				require.NoError(t, d.Join(last, dispatch.Terms{Partition: dispatch.NoPartition}))
				list = append(list, sub{last, 0})
			},
			"leave": func(t *rapid.T) {
				i := anyone(t)
				d.Leave(list[i].id)
				list = slices.Delete(list, i, i+1)
			},
			"revoke": func(t *rapid.T) {
				i := anyone(t)
				require.Equal(t, list[i].credit, d.Revoke(list[i].id))
				set(i, 0)
			},
			"ask": func(t *rapid.T) {
				i := anyone(t)
				n := rapid.OneOf(rapid.Int64Range(1, 4), rapid.Just[int64](math.MaxInt64-5)).Draw(t, "n")
				d.Ask(list[i].id, n)
				if c := list[i].credit; c > math.MaxInt64-n {
					set(i, math.MaxInt64)
				} else {
					set(i, c+n)
				}
			},
			"serve": func(t *rapid.T) {
				n := rapid.IntRange(1, 4).Draw(t, "n")
				got, ok := d.Next(func(int) int { return n })
				require.Equal(t, len(list) > 0 && list[0].credit > 0, ok)
				if !ok {
					return
				}
				first := list[0]
				n = int(min(int64(n), first.credit))
				require.Equal(t, []dispatch.ID{first.id}, got.To)
				require.Equal(t, n, got.N)
				if first.credit < math.MaxInt64 {
					first.credit -= int64(n)
				}
				set(0, first.credit)
			},
			"": func(t *rapid.T) {
				sum := int64(0)
				for _, s := range list {
					if sum += s.credit; sum < 0 {
						sum = math.MaxInt64
						break
					}
				}
				require.Equal(t, sum, d.Demand())
			},
		})
	})
}
