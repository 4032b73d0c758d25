package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// said is what an environment is told.
type said struct {
	mu   sync.Mutex
	said []string
}

func (s *said) env() Env {
	return Env{
		OnDiscard: func(stage, reason string, count int) {
			for range count {
				s.add(stage + ": discarded: " + reason)
			}
		},
		OnError: func(stage string, err error) { s.add(stage + ": " + err.Error()) },
	}
}

func (s *said) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, text)
}

// run runs the stages of a file: events come out of the outlet "in", which is not one of
// them, and what comes out of others is kept by name.
func run(t *testing.T, env Env, file string, events []string, outlets ...string) (map[string][]string, []*Stage, error) {
	t.Helper()
	f := parse(t, file)
	all, err := Build(f, env)
	require.NoError(t, err)
	in := stage.NewSource[string](nil)
	in.Name = "in"
	require.NoError(t, in.Push(events...))
	in.Finish()
	byName := map[string]stage.Outlet[string]{"in": in}
	runners := []stage.Runner{in}
	for _, s := range all {
		require.NoError(t, s.Open(t.Context()))
		byName[s.Name] = s.Outlet
		runners = append(runners, s.Runner)
	}
	for i, s := range f.Stages {
		for _, from := range s.From {
			stage.Connect(byName[from.Outlet], all[i].Inlet)
		}
	}
	var mu sync.Mutex
	got := map[string][]string{}
	for _, name := range outlets {
		k := stage.NewSink(func(_ context.Context, batch []string) error {
			mu.Lock()
			defer mu.Unlock()
			got[name] = append(got[name], batch...)
			return nil
		})
		stage.Connect(byName[name], k)
		runners = append(runners, k)
	}
	err = stage.Run(t.Context(), runners...)
	for _, s := range all {
		require.NoError(t, s.Close())
	}
	return got, all, err
}

const reading = "expr: invalid operation: int(x), at column 8 of it, for the event \"x\""

// One event that cannot be handled does not take the others with it, and nothing is given
// up without a word: what it was, and why.
func TestSkip(t *testing.T) {
	var s said
	got, all, err := run(t, s.env(), "  g: {gate: map, from: in, on_error: skip, with: {expr: 'string(int(event) * 2)'}}\n",
		[]string{"1", "x", "3"}, "g")
	require.NoError(t, err)
	require.Equal(t, []string{"2", "6"}, got["g"])
	require.Equal(t, []string{"g: " + reading, "g: discarded: " + stage.DiscardHandler}, s.said)
	require.True(t, all[0].Accepts(stage.DiscardHandler))
	require.False(t, all[0].Accepts(stage.DiscardExhausted))
	require.False(t, all[0].Accepts(stage.DiscardOverflow))
}

// A letter is one line, and says all there is to say. Stages share an outlet of letters.
func TestLetters(t *testing.T) {
	var s said
	begin := time.Now()
	got, all, err := run(t, s.env(), `
  g: {gate: filter, from: in, on_error: {retry: {attempts: 2, delay: 1ms, then: dead_letter}}, dead_letter: dead, with: {expr: 'int(event) > 0'}}
  k: {sink: file, from: g, on_error: dead_letter, dead_letter: dead, with: {path: /dev/full}}
`, []string{"1", "x", "\xff<\n"}, "dead")
	require.NoError(t, err)
	require.Equal(t, []string{"g", "k", "dead"}, []string{all[0].Name, all[1].Name, all[2].Name})
	letters := map[string]map[string]any{}
	for _, line := range got["dead"] {
		require.NotContains(t, line, "\n")
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		at, err := time.Parse(time.RFC3339Nano, l["time"].(string))
		require.NoError(t, err)
		require.WithinRange(t, at, begin, time.Now())
		delete(l, "time")
		letters[l["event"].(string)] = l
	}
	require.Equal(t, map[string]map[string]any{
		"1": {"event": "1", "stage": "k", "outlet": "g", "attempts": 1.0, "reason": stage.DiscardHandler, "error": "write /dev/full: " + syscall.ENOSPC.Error()},
		"x": {"event": "x", "stage": "g", "outlet": "in", "attempts": 3.0, "reason": stage.DiscardHandler, "error": letters["x"]["error"]},
		"�<\n": {
			"event": "�<\n", "raw": base64.StdEncoding.EncodeToString([]byte("\xff<\n")),
			"stage": "g", "outlet": "in", "attempts": 3.0, "reason": stage.DiscardHandler, "error": letters["�<\n"]["error"],
		},
	}, letters)
	require.Contains(t, letters["x"]["error"], `invalid operation: int(x)`)
	require.Len(t, s.said, 3+3+1, "each try")
	require.False(t, all[1].Accepts(stage.DiscardHandler), "a letter that got nowhere is a loss")
}

// What comes back from others too often goes to the dead letters of the stage that it
// comes back to.
func TestExhausted(t *testing.T) {
	for name, file := range map[string]string{
		"source": "  s: {source: generate, with: {count: 3, text: '{n}'}, max_attempts: 2, dead_letter: dead}\n",
		"gate":   "  s: {gate: map, from: in, with: {expr: event}, max_attempts: 2, dead_letter: dead}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var s said
			f := parse(t, file)
			all, err := Build(f, s.env())
			require.NoError(t, err)
			runners := []stage.Runner{all[0].Runner, all[1].Runner}
			if name == "gate" {
				in := stage.NewSource[string](nil)
				require.NoError(t, in.Push("1", "2", "3"))
				in.Finish()
				stage.Connect(in, all[0].Inlet)
				runners = append(runners, in)
			}
			var got []string
			fails := func() error {
				k := stage.NewSink(func(_ context.Context, batch []string) error {
					for i, event := range batch {
						if event == "2" {
							return stage.FailedAt(i, errors.New("two"))
						}
						got = append(got, event)
					}
					return nil
				})
				stage.Connect(all[0].Outlet, k)
				return k.Run(t.Context())
			}
			done := make(chan error, 1)
			go func() { done <- stage.Run(t.Context(), runners...) }()
			require.ErrorContains(t, fails(), "two")
			require.ErrorContains(t, fails(), "two")
			require.NoError(t, fails())
			require.Equal(t, []string{"1", "3"}, got)
			var dead []string
			k := stage.NewSink(func(_ context.Context, batch []string) error { dead = append(dead, batch...); return nil })
			stage.Connect(all[1].Outlet, k)
			require.NoError(t, k.Run(t.Context()))
			require.NoError(t, <-done)
			require.Len(t, dead, 1)
			require.Contains(t, dead[0], `"event":"2","stage":"s","outlet":"s","attempts":2,"reason":"`+stage.DiscardExhausted+`"`)
			require.Equal(t, []string{"s: discarded: " + stage.DiscardExhausted}, s.said)
			require.True(t, all[0].Accepts(stage.DiscardExhausted))
		})
	}
}
