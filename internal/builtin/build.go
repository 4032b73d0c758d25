package builtin

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicenet/sluice/internal/config"
	"github.com/sluicenet/sluice/pkg/stage"
)

// Env is what stages touch of their process.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	// OnDiscard is told what a stage gave up, and why.
	OnDiscard func(stage, reason string, count int)
	// OnError is told why a stage could not handle what it has, each time, unless it fails
	// at the first one.
	OnError func(stage string, err error)
}

// Stage is a stage of a file, built and not run.
type Stage struct {
	Name string
	// Type is its kind, such as file.
	Type string
	// Runner is the stage itself.
	Runner Runner
	// Outlet is nil for a sink, Inlet for a source.
	Outlet stage.Outlet[string]
	Inlet  stage.Inlet[string]

	with   *config.Section
	policy policy
	use    use
	open   func(context.Context) error
	close  func() error
}

// Runner is a stage that can be run, and looked at.
type Runner interface {
	stage.Runner
	stage.Inspector
}

// kind is one kind of stage.
type kind struct {
	kind config.Kind
	name string
	// does says in a few words what it does, keys which settings it takes.
	does, keys string
	// build completes s, which has a name.
	build func(s *Stage, with *config.Section, env Env) error
}

var kinds = []kind{fileSource, stdinSource, generateSource, filterGate, mapGate, fileSink, stdoutSink}

// Build makes the stages that a file describes, in its order, and behind them the outlets
// of their dead letters. What is wrong with them is config.Errors, all of it. Nothing is
// opened, read or written.
func Build(f *config.File, env Env) ([]*Stage, error) {
	var all, outlets []*Stage
	var errs []error
	letters := map[string]stage.Letterbox[string]{}
	for _, name := range f.DeadLetters() {
		var s *Stage
		s, letters[name] = newLetters(name, env)
		outlets = append(outlets, s)
	}
	for _, s := range f.Stages {
		k, err := find(f, s)
		if err == nil {
			one := &Stage{Name: s.Name, Type: s.Type, with: s.With, policy: policyOf(s, letters)}
			if err = k.build(one, s.With, env); err == nil {
				all = append(all, one)
			}
		}
		errs = append(errs, err)
	}
	if err := config.Join(append(errs, conflicts(all))...); err != nil {
		return nil, err
	}
	return append(all, outlets...), nil
}

func find(f *config.File, s config.Stage) (kind, error) {
	var names []string
	for _, k := range kinds {
		switch {
		case k.kind != s.Kind:
		case k.name == s.Type:
			return k, nil
		default:
			names = append(names, k.name)
		}
	}
	e := f.Errorf(s.TypePos, "stages.%s: there is no %v %q: the kinds are %s", s.Name, s.Kind, s.Type, strings.Join(names, ", "))
	e.Hint = config.Suggest(s.Type, names)
	for _, k := range kinds {
		if e.Hint == "" && k.name == s.Type {
			e.What = fmt.Sprintf("stages.%s: %s is a %v, and not a %v: the kinds are %s", s.Name, k.name, k.kind, s.Kind, strings.Join(names, ", "))
		}
	}
	return kind{}, e
}

// Help lists the kinds for people, one a line.
func Help() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %-6v  %-8s  %-22s  %s\n", k.kind, k.name, k.keys, k.does)
	}
	return b.String()
}

// Open opens what the stage reads or writes.
func (s *Stage) Open(ctx context.Context) error {
	if s.open == nil {
		return nil
	}
	if err := s.open(ctx); err != nil {
		return &stage.Error{Stage: s.Name, Err: err}
	}
	return nil
}

// Close closes what Open has opened. It is called when the stage has ended, or is
// not going to run.
func (s *Stage) Close() error {
	if s.close == nil {
		return nil
	}
	if err := s.close(); err != nil {
		return &stage.Error{Stage: s.Name, Err: err}
	}
	return nil
}

// use is what a stage needs for itself alone.
type use struct {
	what string // a path, or what stands for it
	key  string // that names it
	// shared: others may read it too, but not write.
	shared bool
}

// conflicts says which stages are in each other's way: two write to one file, or
// one writes to what another one reads.
func conflicts(all []*Stage) error {
	var errs []error
	for i, s := range all {
		if s.use.what == "" {
			continue
		}
		j := slices.IndexFunc(all[:i], func(o *Stage) bool {
			return o.use.what == s.use.what && !(o.use.shared && s.use.shared)
		})
		if j >= 0 {
			errs = append(errs, s.with.Errorf(s.use.key, "stages.%s uses that already, and would be disturbed", all[j].Name))
		}
	}
	return config.Join(errs...)
}

// SameFiles says which stages are in each other's way although they name different
// paths: by a link, for instance, one may lead to the file of the other. It looks at
// the files and changes nothing, so it is asked before anything is opened.
func SameFiles(all []*Stage) error {
	type file struct {
		s    *Stage
		info os.FileInfo
	}
	var files []file
	var errs []error
	for _, s := range all {
		info, err := os.Stat(s.use.what)
		if s.use.what == "" || err != nil || !info.Mode().IsRegular() {
			continue // it is made when it is opened, or cannot be disturbed
		}
		for _, o := range files {
			if os.SameFile(info, o.info) && !(o.s.use.shared && s.use.shared) {
				errs = append(errs, s.with.Errorf(s.use.key, "it is the file that stages.%s uses, by another name, and would be disturbed", o.s.Name))
			}
		}
		files = append(files, file{s, info})
	}
	return config.Join(errs...)
}

// patience is how long a stage that has come to its end keeps what nobody has taken
// yet. Whoever is to take it may be started later, and by somebody else.
const patience = 365 * 24 * time.Hour

// source completes a source.
func (s *Stage) source(env Env, produce func(context.Context, int) ([]string, error)) *stage.Source[string] {
	src := stage.NewSource(produce)
	src.Name, src.OnDiscard = s.Name, discards(env, s.Name)
	src.MaxAttempts, src.DeadLetters = s.policy.maxAttempts, s.policy.letters
	src.DrainTimeout = patience
	s.Runner, s.Outlet = src, src
	return src
}

// gate completes a gate. One that fails at an event returns what it has made of those
// before it, and stage.FailedAt.
func (s *Stage) gate(env Env, transform func(context.Context, []string) ([]string, error)) {
	g := stage.NewGate(func(ctx context.Context, events []string) ([]string, error) {
		made, err := transform(ctx, events)
		s.failed(ctx, env, err)
		return made, err
	})
	g.Name, g.OnDiscard = s.Name, discards(env, s.Name)
	g.OnError, g.DeadLetters = s.policy.onError, s.policy.letters
	g.MaxAttempts, g.Exhausted = s.policy.maxAttempts, s.policy.letters
	g.DrainTimeout = patience
	s.Runner, s.Outlet, s.Inlet = g, g, g
}

// sink completes a sink.
func (s *Stage) sink(env Env, consume func(context.Context, []string) error) {
	k := stage.NewSink(func(ctx context.Context, events []string) error {
		err := consume(ctx, events)
		s.failed(ctx, env, err)
		return err
	})
	k.Name, k.OnDiscard = s.Name, discards(env, s.Name)
	k.OnError, k.DeadLetters = s.policy.onError, s.policy.letters
	s.Runner, s.Inlet = k, k
}

func discards(env Env, name string) func(string, int) {
	if env.OnDiscard == nil {
		return nil
	}
	return func(reason string, count int) { env.OnDiscard(name, reason, count) }
}
