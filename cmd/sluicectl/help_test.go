package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents are what the verbs print with -o json, and the heads under which
// their help lists the keys.
var documents = map[string]map[string]any{
	"nodes":   {"": nodesAnswer{}, "nodes[]": node{}, "unreachable[]": unreachable{}},
	"outlets": {"": outletsAnswer{}, "outlets[]": outlet{}, "unreachable[]": unreachable{}},
	"stages":  {"": stagesAnswer{}, "stages[]": stage{}, "unreachable[]": unreachable{}},
	"subs":    {"": subsAnswer{}, "subscriptions[]": subscription{}, "unreachable[]": unreachable{}},
	"version": {"": versionAnswer{}, "client": clientBuild{}, "nodes[]": nodeVersion{}, "unreachable[]": unreachable{}},
	"tap":     {"an event": tapped{}},
}

func TestHelpListsTheKeys(t *testing.T) {
	for verb, parts := range documents {
		t.Run(verb, func(t *testing.T) {
			got := sluicectl(t, verb, "--help")
			require.Equal(t, exitOK, got.code)
			documented := keysInHelp(got.stdout)
			require.Len(t, documented, len(parts))
			for head, part := range parts {
				require.Equal(t, tags(part), documented[head], head)
			}
		})
	}
}

var (
	keysHead = regexp.MustCompile(`^JSON keys(?: of (.*))?:$`)
	keyLine  = regexp.MustCompile(`^  ([a-z0-9_]+)  +\S`)
)

// keysInHelp returns the keys that a help text lists, by what they are keys of.
func keysInHelp(help string) map[string][]string {
	keys := map[string][]string{}
	var head *string
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		if m := keysHead.FindStringSubmatch(line); m != nil {
			head = &m[1]
		} else if line == "" {
			head = nil
		} else if m := keyLine.FindStringSubmatch(line); m != nil && head != nil {
			keys[*head] = append(keys[*head], m[1])
		}
	}
	return keys
}

func tags(of any) []string {
	var names []string
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// What is printed is what the documented types say, and nothing else.
func TestDocumentsRoundTrip(t *testing.T) {
	address := cluster().serve(t)
	for verb, into := range map[string]any{
		"nodes": new(nodesAnswer), "outlets": new(outletsAnswer), "stages": new(stagesAnswer),
		"subs": new(subsAnswer), "version": new(versionAnswer),
	} {
		t.Run(verb, func(t *testing.T) {
			got := sluicectl(t, verb, "-o", "json", "-s", address)
			d := json.NewDecoder(strings.NewReader(got.stdout))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(into))
			var again strings.Builder
			require.NoError(t, document{into}.write(&again))
			require.Equal(t, got.stdout, again.String())
			require.False(t, d.More(), "one document")
		})
	}
	t.Run("tap", func(t *testing.T) {
		got := sluicectl(t, "tap", "orders", "-o", "json", "-s", address)
		for line := range strings.Lines(got.stdout) {
			d := json.NewDecoder(strings.NewReader(line))
			d.DisallowUnknownFields()
			var e tapped
			require.NoError(t, d.Decode(&e))
			require.NotEqual(t, e.Event == nil, e.EventBase64 == nil, "one of the two")
		}
	})
}

func TestEveryVerbHasItsHelp(t *testing.T) {
	a := &app{env: noEnv}
	for _, cmd := range a.command().Commands() {
		_, ok := documents[cmd.Name()]
		require.True(t, ok, cmd.Name())
		require.Contains(t, cmd.Long, "Exit codes:")
		for line := range strings.Lines(cmd.Long) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 90, line)
		}
	}
}
