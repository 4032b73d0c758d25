package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicenet/sluice/internal/config"
)

const demoHelp = `Run three nodes on this machine, each a process of its own, and let the lines of a file
flow through them:

  lines @a ──▶ kept @b ──▶ loud @b ──▶ out @c

Node a reads the file, node b keeps some of the lines and changes them, and node c
writes them to stdout. At the end it shows what was asked for, sent and acknowledged on
each subscription. Without a file it takes a poem with the sea in it.

With --rate the last stage is slow. All the others are as slow then: ask one of the
nodes, whose addresses are on stderr, with sluicectl subs.`

const demoExample = `  sluice-node demo
  sluice-node demo --rate 5
  sluice-node demo /etc/services --filter 'event contains "http"' --map 'upper(event)'`

//go:embed demo.txt
var demoText []byte

// demo is one call of the demo.
type demo struct {
	*app
	input           string // the file
	filter, mapping string
	rate            float64
	dir             string // of the temporary files
	nodes           map[string]*child
}

func (a *app) demo() *cobra.Command {
	d := &demo{app: a, nodes: map[string]*child{}}
	cmd := &cobra.Command{
		Use:     "demo [FILE]",
		Short:   "Run three nodes on this machine, and let a file flow through them",
		Long:    demoHelp,
		Example: demoExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{fmt.Sprintf("demo takes one file, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				d.input = args[0]
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&d.filter, "filter", "", "which lines to keep: an `EXPR` over event (default: those with the sea in them; of a file, those that are not empty)")
	cmd.Flags().StringVar(&d.mapping, "map", "upper(event)", "what to make of them: an `EXPR` over event")
	cmd.Flags().Float64Var(&d.rate, "rate", 0, "how many lines per second to write, 0 for no limit")
	return cmd
}

// The nodes of the demo.
const (
	nodeA = "a"
	nodeB = "b"
	nodeC = "c"
)

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.prepare(); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	// Children are told of the death of the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, kill := context.WithCancel(ctx)
	defer func() {
		kill()
		for _, c := range d.nodes {
			<-c.ended
		}
		err = d.explain(ctx, err)
	}()
	// Each one joins those that are there: the flow may be over, and node a gone,
	// before gossip has made the other two acquainted.
	var known []string
	for _, name := range []string{nodeA, nodeC, nodeB} {
		c, err := d.start(ctx, name, known)
		if err != nil {
			return err
		}
		at, err := c.up(ctx)
		if err != nil {
			return err
		}
		known = append(known, at)
	}
	fmt.Fprintf(d.stderr, "Three nodes, each a process of its own:\n  a %s   b %s   c %s\n\n",
		d.nodes[nodeA].grpc, d.nodes[nodeB].grpc, d.nodes[nodeC].grpc)
	// They have opened all of it. Should this process be killed, nothing is left behind.
	_ = os.RemoveAll(d.dir)
	if err := d.wait(ctx); err != nil {
		return err
	}
	return d.show()
}

// prepare fills in what was not given, checks what was, and makes the directory.
func (d *demo) prepare() error {
	var err error
	if d.dir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
		return err
	}
	if d.input == "" {
		d.input = filepath.Join(d.dir, "demo.txt")
		d.filter = orElse(d.filter, `event matches "(?i)\\b(water|sea)\\b"`)
		err = os.WriteFile(d.input, demoText, 0o600)
	} else {
		d.filter = orElse(d.filter, `trim(event) != ""`)
		if d.input, err = filepath.Abs(d.input); err == nil {
			err = readable(d.input)
		}
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		_ = os.RemoveAll(d.dir)
	}
	return err
}

func readable(path string) error {
	f, err := os.Open(path)
	if err == nil {
		err = f.Close()
	}
	return err
}

// check says what is wrong with the flags, in the words of the configuration.
func (d *demo) check() error {
	for _, name := range []string{nodeA, nodeB, nodeC} {
		f, err := config.Parse("", d.config(name, nil))
		if err == nil {
			_, err = build(f, settings{})
		}
		var problem *config.Error
		if errors.As(err, &problem) {
			problem.Line, problem.Code = 0, ""
			return &usageError{problem.Error()}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// start starts the process of a node.
func (d *demo) start(ctx context.Context, name string, join []string) (*child, error) {
	path := filepath.Join(d.dir, name+".yaml")
	if err := os.WriteFile(path, d.config(name, join), 0o600); err != nil {
		return nil, err
	}
	var stdout io.Writer
	if name == nodeC {
		stdout = d.stdout
	}
	c, err := startChild(ctx, name, path, stdout)
	if err != nil {
		return nil, err
	}
	d.nodes[name] = c
	return c, nil
}

// wait waits for the nodes to end by themselves. Where several fail, the error is the
// one that the events get to first: the others have failed because of it.
func (d *demo) wait(ctx context.Context) error {
	ends := make(chan *child, len(d.nodes))
	for _, c := range d.nodes {
		go func() {
			<-c.ended
			ends <- c
		}()
	}
	failed := map[string]*child{}
	var patience <-chan time.Time
	for left := len(d.nodes); left > 0; left-- {
		select {
		case c := <-ends:
			if c.err != nil {
				failed[c.name] = c
			}
			if c.err != nil && patience == nil {
				patience = time.After(followWithin)
			}
		case <-patience:
			left = 0
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, name := range []string{nodeA, nodeB, nodeC} {
		if c := failed[name]; c != nil {
			return &childError{c}
		}
	}
	return nil
}

// followWithin is how long the others have to say that they have failed too.
const followWithin = 2 * time.Second

// explain turns the error of a run into what its user needs. The children have
// ended.
func (d *demo) explain(ctx context.Context, err error) error {
	var failed *childError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		fmt.Fprintf(d.stderr, "sluice-node: demo: node %q failed (%v); this is its log:\n", failed.c.name, failed.c.err)
		failed.c.writeLog(d.stderr)
		return errReported
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return errors.New("demo: it was interrupted")
	}
	return fmt.Errorf("demo: %w", err)
}
