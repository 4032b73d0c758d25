package builtin

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var errFull = errors.New("full")

// small has room for a few bytes now and then.
type small struct {
	strings.Builder
	rooms []int // of the writes to come; less than 0 is enough, as it is behind the last
}

func (s *small) Write(p []byte) (int, error) {
	if len(s.rooms) > 0 {
		n := s.rooms[0]
		s.rooms = s.rooms[1:]
		if n >= 0 && n < len(p) {
			s.Builder.Write(p[:n])
			return n, errFull
		}
	}
	return s.Builder.Write(p)
}

// Wherever writes fail, no line is spoiled: what is tried again until it works is written
// once, and what is given up leaves the beginning of a line at most.
func TestTornLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,4}`), 1, 20).Draw(t, "events")
		skips := rapid.Bool().Draw(t, "skips")
		out := &small{rooms: rapid.SliceOfN(rapid.IntRange(-1, 8), 0, 30).Draw(t, "rooms")}
		w := &lineWriter{to: out}
		given := map[string]bool{"": true}
		var want []string
		for rest := events; len(rest) > 0; {
			batch := rest[:rapid.IntRange(1, len(rest)).Draw(t, "batch")]
			err := w.consume(t.Context(), batch)
			done := len(batch)
			if err != nil {
				require.ErrorIs(t, err, errFull)
				done = w.done
			}
			want, rest = append(want, batch[:done]...), rest[done:]
			if err != nil && skips && len(rest) > 0 {
				for i := range rest[0] {
					given[rest[0][:i+1]] = true
				}
				rest = rest[1:]
			}
		}
		if !skips {
			require.Equal(t, strings.Join(want, "\n")+"\n", out.String())
			return
		}
		lines := strings.Split(out.String(), "\n")
		for _, line := range lines {
			if len(want) > 0 && line == want[0] {
				want = want[1:]
				continue
			}
			require.True(t, given[line], "%q of %q", line, lines)
		}
		require.Empty(t, want, "%q", lines)
	})
}
