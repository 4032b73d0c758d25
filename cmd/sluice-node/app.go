package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicenet/sluice/internal/builtin"
	"github.com/sluicenet/sluice/internal/config"
)

var rootHelp = `sluice-node runs the stages of a configuration file as one node of a sluice network.

Stages:
` + builtin.Help() + `
Every stage also takes:
  from          gates and sinks: an outlet, or a list of them, each a name or
                {outlet, max_demand, min_demand, resume_window, publishers: all|one, expect,
                auto_demand: true, or {min, max, max_bytes}}
  on_error      gates and sinks: what is done with an event that cannot be handled: fail (the
                default), skip or dead_letter, or {retry: {attempts, delay, max_delay, then}}
  max_attempts  sources and gates: how often an event may come back from a stage that had it and
                failed, until it is given up: 5, and -1 is without limit
  dead_letter   the name of the outlet for events that the stage gives up: lines of JSON, with
                time, event, stage, outlet, attempts, reason and error

Exit codes:
  0   all stages have ended well, or were told to stop and have drained
  1   a stage failed, a subscription was lost, or the node could not run: stderr says
      what, why, and what to do next
  2   the command line is wrong
  3   it was told to stop and has drained, but not everything had somebody to go to: the
      log says how many events were discarded, of which stage, and why
  78  the configuration is wrong: stderr has every problem of its shape, one a line,
      and once that is right those of its stages
  130, 143  a second signal has cut it while it drained`

const rootExample = `  sluice-node demo
  sluice-node validate -c sluice.yaml
  sluice-node run -c sluice.yaml`

// What a command line ends with.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitLeft   = 3
	exitSignal = 128 // and the number of the signal, as shells have it
	exitConfig = 78  // EX_CONFIG of sysexits.h
)

// app is one call of sluice-node: what it may touch.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string

	// running says that the command line was right: errors are of its work.
	running bool
}

// run does what args say and returns the exit code. Ending ctx drains what runs.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	root := a.command()
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for "look at os.Args"
	root.SetOut(stdout)
	root.SetErr(stderr)

	cmd, err := root.ExecuteContextC(ctx)
	var usage *usageError
	var wrong *configError
	switch {
	case err == nil:
		return exitOK
	case !a.running, errors.As(err, &usage):
		fmt.Fprintf(stderr, "sluice-node: %v\n  try: %s --help\n", err, cmd.CommandPath())
		return exitUsage
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, wrong)
		return exitConfig
	case errors.Is(err, errLeft):
		return exitLeft
	case !errors.Is(err, errReported):
		failureOf(err).write(stderr)
	}
	return exitError
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:              "sluice-node",
		Short:            "Run the stages of a configuration file as one node of a network",
		Long:             rootHelp,
		Example:          rootExample,
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { a.running = true },
	}
	root.AddCommand(a.run(), a.validate(), a.demo(), a.version())
	return root
}

// usageError is a command line that parses and makes no sense.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Sprintf("%s takes no arguments, not %q", cmd.Name(), args[0])}
	}
	return nil
}

// fileFlag gives cmd the flag that names its file, which is required.
func fileFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "the configuration `FILE`")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *path == "" {
			return &usageError{"it needs a configuration file: -c FILE"}
		}
		return nil
	}
}

// configError is a file that cannot be used.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }

func (e *configError) Unwrap() error { return e.err }

// load reads a file.
func load(path string) (*config.File, error) {
	f, err := config.Load(path)
	if err != nil && !errors.As(err, new(config.Errors)) {
		err = fmt.Errorf("sluice-node: the configuration cannot be read: %w", err)
	}
	if err != nil {
		return nil, &configError{err}
	}
	return f, nil
}
