package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicenet/sluice/internal/mtls"
)

const rootHelp = `sluicectl asks a sluice network what runs where, and where it stops.

Any one node answers for the whole cluster: it asks the others, and says which of
them did not answer. Data goes to stdout, everything else to stderr.

Exit codes:
  0  every node answered
  1  an error: stderr says what, why, and what to do next
  2  the command line is wrong
  3  some nodes did not answer: stderr names them, and so does "unreachable" in JSON

Environment:
  SLUICE_SERVER    the node to ask, where --server is not given
  SLUICE_TLS_CERT  a certificate, its key, and the CA of the nodes, where --tls-cert,
  SLUICE_TLS_KEY   --tls-key and --tls-ca are not given. Nodes with TLS are asked with
  SLUICE_TLS_CA    all three; who the certificate is for has to be allowed to administer
  SLUICE_IDENTITY  what the node has to be, where --identity is not given`

const rootExample = `  sluicectl nodes
  sluicectl subs --server 10.0.3.11:7301
  sluicectl stages -o json | jq '.stages[] | select(.state == "failed")'
  sluicectl tap numbers -n 10`

// What a command line ends with.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitPartial = 3
)

const (
	defaultServer  = "127.0.0.1:7301"
	defaultTimeout = 5 * time.Second
)

// app is one call of sluicectl: what it may touch, and its global flags.
type app struct {
	stdout, stderr io.Writer
	env            func(string) string
	client         clientBuild
	dial           func(context.Context, string) (net.Conn, error) // nil is TCP

	server   string
	timeout  time.Duration
	output   format
	tls      mtls.Files
	identity string // a glob of what the node has to be

	// running says that the command line was right: errors are of its work.
	running bool
}

// run does what args say and returns the exit code. Ending ctx interrupts it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{stdout: stdout, stderr: stderr, env: env, client: thisBuild()}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for "look at os.Args"
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errPartial) {
		return exitPartial // the nodes are named already
	}
	var wrong *usageError
	if !a.running || errors.As(err, &wrong) {
		reportUsage(a.stderr, cmd, err)
		return exitUsage
	}
	reportError(a.stderr, err)
	return exitError
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:              "sluicectl",
		Short:            "Ask a sluice network what runs where, and where it stops",
		Long:             rootHelp,
		Example:          rootExample,
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { a.running = true },
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.server, "server", "s", cmp.Or(a.env("SLUICE_SERVER"), defaultServer), "the node to ask, as `HOST:PORT` (SLUICE_SERVER)")
	flags.StringVar(&a.tls.Cert, "tls-cert", a.env("SLUICE_TLS_CERT"), "your certificate, a `FILE` in PEM (SLUICE_TLS_CERT)")
	flags.StringVar(&a.tls.Key, "tls-key", a.env("SLUICE_TLS_KEY"), "its key, a `FILE` in PEM (SLUICE_TLS_KEY)")
	flags.StringVar(&a.tls.CA, "tls-ca", a.env("SLUICE_TLS_CA"), "the CA of the nodes, a `FILE` in PEM (SLUICE_TLS_CA)")
	flags.StringVar(&a.identity, "identity", a.env("SLUICE_IDENTITY"), "what the certificate of the node has to say that it is, a `GLOB` (SLUICE_IDENTITY)")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to wait for the answer; for tap, for the connection")
	flags.VarP(&a.output, "output", "o", "how to write it: table or json")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatTable, formatJSON}, cobra.ShellCompDirectiveNoFileComp))

	root.AddCommand(a.nodes(), a.outlets(), a.stages(), a.subs(), a.tap(), a.version())
	return root
}
