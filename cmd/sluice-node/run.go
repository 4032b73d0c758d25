package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicenet/sluice/internal/builtin"
	"github.com/sluicenet/sluice/pkg/stage"
)

const runHelp = `Run the stages of a file, as one node of the cluster that the file names.

It ends by itself when all its stages have ended, because their sources came to an end
or were stopped. An outlet that nobody offers yet is waited for. When a stage fails, the
others drain, so that whoever watches over the process can start all of them again. An
event that cannot be handled fails its stage, unless on_error says something else; what is
skipped then is in the log, and is no failure.

SIGTERM and SIGINT drain: other nodes are told, sources stop, what is on its way is
processed and acknowledged. That takes as long as it takes, and at most 35 s. A second
signal cuts.

The log goes to stderr; stdout belongs to the stdout sink.

Exit codes:
  0   all stages have ended well, or have drained
  1   a stage failed, a subscription was lost, or the node could not run
  2   the command line is wrong
  3   it has drained, and events were left that nobody took: the log counts them
  78  the configuration is wrong
  130, 143  a second signal has cut it`

func (a *app) run() *cobra.Command {
	var path string
	var log logging
	var reflection bool
	cmd := &cobra.Command{
		Use:     "run -c FILE",
		Short:   "Run the stages of a file",
		Long:    runHelp,
		Example: "  sluice-node run -c sluice.yaml --log-format json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, say, err := log.open(a.stderr)
			if err != nil {
				return err
			}
			f, err := load(path)
			if err != nil {
				return err
			}
			n, err := build(f, settings{
				env:        builtin.Env{Stdin: a.stdin, Stdout: a.stdout},
				log:        logger,
				reflection: reflection,
			})
			if err != nil {
				return err
			}
			for _, note := range notes(f) {
				logger.Warn(note.Error())
			}
			return n.run(cmd.Context(), logger, say)
		},
	}
	fileFlag(cmd, &path)
	log.flags(cmd)
	cmd.Flags().BoolVar(&reflection, "reflection", false, "let tools such as grpcurl ask the node what it offers")
	return cmd
}

// run runs the network to its end. When a stage fails, the others drain: nobody
// would start it again in this process. What went wrong is said with say; the error is
// only that something did.
func (n *network) run(ctx context.Context, log *slog.Logger, say func(failure)) error {
	ctx, drain := context.WithCancelCause(ctx)
	defer drain(nil)
	w := newWatcher(n, log, say, drain)
	if err := n.open(ctx); err != nil {
		if ctx.Err() == nil {
			w.report(err)
		}
		return w.result()
	}
	stop := context.AfterFunc(ctx, func() {
		log.Info("draining; a second signal cuts", "why", context.Cause(ctx))
	})
	defer stop()
	w.begin()
	ended := make(chan error, 1)
	go func() { ended <- stage.Run(ctx, n.runners()...) }()
	select {
	case err := <-ended:
		stop() // there is nothing to drain any more
		w.finish(ctx, err)
	case <-late(ctx):
		w.report(errLate)
	}
	return w.result()
}

// drainWithin is how long draining may take in all. A sink fails a bit earlier when
// it does not come to its end.
const drainWithin = stage.DefaultDrainTimeout + 5*time.Second

var errLate = fmt.Errorf("draining took longer than %v and was cut: %w", drainWithin, stage.ErrDrainTimeout)

// late returns a channel that is closed when ctx has been done for too long.
func late(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(drainWithin, func() { close(over) }) })
	return over
}

// open opens what the stages read and write. What is written is truncated last: not
// before it is known that there is something to read.
func (n *network) open(ctx context.Context) error {
	all := make([]*builtin.Stage, len(n.stages))
	for i, p := range n.stages {
		all[i] = p.Stage
	}
	if err := builtin.SameFiles(all); err != nil {
		return err
	}
	for _, sinks := range []bool{false, true} {
		for _, p := range n.stages {
			if (p.Outlet == nil) != sinks {
				continue
			}
			if err := p.Open(ctx); err != nil {
				for _, opened := range n.stages {
					_ = opened.Close() // nothing was written
				}
				return err
			}
		}
	}
	return nil
}
