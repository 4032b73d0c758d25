package config

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// OnError is what a gate or a sink does when it cannot handle an event. The zero value
// fails the stage.
type OnError struct {
	// Retries is how often the same is tried again before Then follows.
	Retries int
	// Delay is how long the first retry waits, MaxDelay how long any does, 0 where the
	// file does not say.
	Delay, MaxDelay time.Duration
	Then            Action
}

// Action is what becomes of an event that cannot be handled.
type Action int

// What there is to do.
const (
	Fail Action = iota
	Skip
	ToDeadLetter
)

// actions are the words for them, in their order.
var actions = []string{"fail", "skip", "dead_letter"}

// The defaults of the stages.
const (
	defaultDelay    = 100 * time.Millisecond
	defaultMaxDelay = 10 * time.Second
)

// policies are the keys of a stage that say what becomes of events that fail.
type policies struct {
	OnError     *value  `yaml:"on_error"`
	MaxAttempts *int    `yaml:"max_attempts"`
	DeadLetter  *string `yaml:"dead_letter"`
}

// policy reads what a stage says about events that fail.
func (s *Stage) policy(p *problems, path string, in *value, given policies) {
	before := len(p.list)
	if given.OnError.given() {
		if s.Kind == Source {
			p.add(codePolicy, given.OnError.pos, "%s.on_error: a source handles no events: max_attempts says how often one of its own may come back", path)
		}
		s.OnError = onError(p, path+".on_error", given.OnError)
	}
	if n := given.MaxAttempts; n != nil {
		at := in.locate(s.Pos, "max_attempts")
		if s.Kind == Sink {
			p.add(codePolicy, at, "%s.max_attempts: nothing comes back to a sink: on_error says what it does with an event that fails", path)
		}
		if *n < 1 && *n != -1 {
			p.add(codeValue, at, "%s.max_attempts is %d, and has to be at least 1, or -1 for no limit", path, *n)
		}
		s.MaxAttempts = *n
	}
	if given.DeadLetter != nil {
		s.DeadLetter, s.deadLetterPos = *given.DeadLetter, in.locate(s.Pos, "dead_letter")
		if wrong := badName(s.DeadLetter, maxName); wrong != "" {
			p.add(codeValue, s.deadLetterPos, "%s.dead_letter %s %s", path, quote(s.DeadLetter), wrong)
		}
	}
	if len(p.list) > before {
		return // what does not fit together may only seem so
	}
	switch sends := s.OnError.Then == ToDeadLetter; {
	case sends && !in.at("dead_letter").given():
		p.add(codeMissing, given.OnError.pos, "%s.dead_letter is required: the name of the outlet that on_error sends to", path)
	case sends || s.DeadLetter == "":
	case s.Kind == Sink:
		p.add(codePolicy, s.deadLetterPos, "%s.dead_letter: nothing would go there: a sink sends to it with on_error: dead_letter", path)
	case s.MaxAttempts == -1:
		p.add(codePolicy, s.deadLetterPos, "%s.dead_letter: nothing would go there: without a limit of attempts none are exhausted", path)
	}
}

// onError reads on_error: what is done, or a mapping with retry.
func onError(p *problems, path string, v *value) (e OnError) {
	if v.kind == scalar {
		e.Then = action(p, path, v, "fail, skip or dead_letter, or a mapping such as {retry: {attempts: 3}}")
		return e
	}
	if v.kind != mapping {
		decoder{p}.wrong(v, path, "fail, skip or dead_letter, or a mapping with retry")
		return e
	}
	var shape struct {
		Retry *value `yaml:"retry"`
	}
	decoder{p}.decode(v, path, reflect.ValueOf(&shape).Elem())
	if !shape.Retry.given() {
		p.add(codeMissing, v.locate(v.pos, "retry"), "%s.retry is required: how often an event is tried again, as in {retry: {attempts: 3}}", path)
		return e
	}
	return retries(p, path+".retry", shape.Retry)
}

func retries(p *problems, path string, v *value) (e OnError) {
	var shape struct {
		Attempts *int           `yaml:"attempts"`
		Delay    *time.Duration `yaml:"delay"`
		MaxDelay *time.Duration `yaml:"max_delay"`
		Then     *value         `yaml:"then"`
	}
	before := len(p.list)
	decoder{p}.decode(v, path, reflect.ValueOf(&shape).Elem())
	if shape.Then.given() {
		e.Then = action(p, path+".then", shape.Then, "fail, skip or dead_letter")
	}
	switch n := shape.Attempts; {
	case n != nil && *n < 1:
		p.add(codeValue, v.locate(v.pos, "attempts"), "%s.attempts is %d, and has to be at least 1", path, *n)
	case n != nil:
		e.Retries = *n
	case v.kind == mapping && !v.at("attempts").given():
		p.add(codeMissing, v.locate(v.pos, "attempts"), "%s.attempts is required: how often an event is tried again", path)
	}
	delay := func(key string, d *time.Duration) time.Duration {
		if d == nil {
			return 0
		}
		if *d <= 0 {
			p.add(codeValue, v.locate(v.pos, key), "%s.%s is %v, and has to be more than 0", path, key, *d)
		}
		return *d
	}
	e.Delay, e.MaxDelay = delay("delay", shape.Delay), delay("max_delay", shape.MaxDelay)
	first, most := cmp.Or(e.Delay, defaultDelay), cmp.Or(e.MaxDelay, defaultMaxDelay)
	switch byDefault := " by default"; {
	case first <= most || len(p.list) > before:
	case e.Delay == 0:
		p.add(codeValue, v.locate(v.pos, "max_delay"), "%s.max_delay is %v, and has to be at least delay, which is %v%s", path, most, first, byDefault)
	default:
		if e.MaxDelay != 0 {
			byDefault = ""
		}
		p.add(codeValue, v.locate(v.pos, "delay"), "%s.delay is %v, and may be at most max_delay, which is %v%s", path, first, most, byDefault)
	}
	return e
}

// action reads one of the actions.
func action(p *problems, path string, v *value, want string) Action {
	var word string
	decoder{p}.decode(v, path, reflect.ValueOf(&word).Elem())
	i := slices.Index(actions, word)
	if i < 0 && !v.isWrong() {
		p.add(codeValue, v.pos, "%s is %s, and has to be %s", path, quote(word), want).Hint = Suggest(word, actions)
	}
	return Action(max(i, 0))
}

// DeadLetters are the names of the outlets that stages of the file send dead letters to,
// each once.
func (f *File) DeadLetters() []string {
	var names []string
	seen := map[string]bool{"": true}
	for _, s := range f.Stages {
		if !seen[s.DeadLetter] {
			seen[s.DeadLetter] = true
			names = append(names, s.DeadLetter)
		}
	}
	return names
}
