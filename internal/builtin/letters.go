package builtin

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicenet/sluice/pkg/stage"
)

// letter is an event that was given up, as a line of JSON.
type letter struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	// Raw is the event where it is not UTF-8, and Event only shows it.
	Raw      []byte `json:"raw,omitempty"`
	Stage    string `json:"stage"`
	Outlet   string `json:"outlet"`
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
}

// line is the line for a letter that is sent now.
func line(l stage.DeadLetter[string]) string {
	out := letter{
		Time: time.Now().UTC(), Event: l.Event,
		Stage: l.Stage, Outlet: l.Outlet, Attempts: l.Attempts, Reason: l.Reason, Error: l.Err,
	}
	if !utf8.ValidString(l.Event) {
		out.Raw = []byte(l.Event)
	}
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(out); err != nil {
		panic(err) // texts and numbers only
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// newLetters makes the outlet for dead letters of that name, and what stages send to.
func newLetters(name string, env Env) (*Stage, stage.Letterbox[string]) {
	s := &Stage{Name: name, Type: "dead_letter"}
	src := s.source(env, nil)
	return s, stage.LettersAs(src, line)
}
