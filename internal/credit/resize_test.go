package credit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// AUT-03, AUT-05: whatever a window is resized to, and when, an ask never brings what is
// open beyond the max of that moment, and what has been asked for is not taken back.
func TestResize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func() (most, least int64) {
			most = rapid.Int64Range(1, 100).Draw(t, "max")
			return most, rapid.Int64Range(0, most-1).Draw(t, "min")
		}
		most, least := size()
		w := NewWindow(most, least, false)
		sent := w.Start()
		left := func(n int64) {
			require.GreaterOrEqual(t, n, int64(0))
			if sent += n; n > 0 {
				require.LessOrEqual(t, sent-w.Acked(), w.Max(), "open")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"receive": func(t *rapid.T) {
				if open := sent - w.Received(); open > 0 {
					require.True(t, w.Receive(rapid.Int64Range(1, open).Draw(t, "n")))
				}
			},
			"process": func(t *rapid.T) {
				here := w.Received() - w.Acked()
				if here == 0 {
					return
				}
				ask := w.Processed(rapid.Int64Range(1, here).Draw(t, "n"))
				if rapid.Bool().Draw(t, "hold") {
					w.Hold(ask)
				} else {
					left(ask)
				}
			},
			"release": func(*rapid.T) { left(w.Release()) },
			"resize":  func(*rapid.T) { w.Resize(size()) },
			"": func(t *rapid.T) {
				require.Equal(t, sent, w.Sent())
				require.LessOrEqual(t, w.Received(), sent)
			},
		})
		// It goes on: when everything is processed, max is open again.
		left(w.Release())
		for range 2 {
			require.True(t, w.Receive(sent-w.Received()))
			left(w.Processed(w.Received() - w.Acked()))
		}
		require.Equal(t, w.Max(), w.Open())
	})
}
