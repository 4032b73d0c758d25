package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errPartial says that the answer is there, and that nodes are missing from it.
var errPartial = errors.New("some nodes did not answer")

// usageError is a command line that parses and makes no sense.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Sprintf("%s takes no arguments, not %q", cmd.Name(), args[0])}
	}
	return nil
}

// failure is an error as a user needs it: what happened, why, and what to do next.
type failure struct{ what, why, next string }

func (f *failure) Error() string { return f.what + ": " + f.why }

func reportUsage(w io.Writer, cmd *cobra.Command, err error) {
	fmt.Fprintf(w, "error: %s\n", strings.TrimSpace(err.Error()))
	fmt.Fprintf(w, "  try: %s --help\n", cmd.CommandPath())
}

func reportError(w io.Writer, err error) {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{what: err.Error()}
	}
	for _, line := range []struct{ label, text string }{{"error", f.what}, {"  why", f.why}, {"  try", f.next}} {
		if line.text != "" {
			fmt.Fprintf(w, "%s: %s\n", line.label, oneLine(line.text))
		}
	}
}

// explain turns what gRPC says about a call to server into a failure.
func explain(err error, server string, timeout time.Duration) error {
	why := reason(err)
	switch status.Code(err) {
	case codes.Unavailable:
		if f := handshakeFailure(why, server); f != nil {
			return f
		}
		return &failure{
			what: "cannot reach a node at " + server,
			why:  why,
			next: "name a node that runs, with --server HOST:PORT or in SLUICE_SERVER",
		}
	case codes.DeadlineExceeded:
		return &failure{
			what: fmt.Sprintf("no answer from %s within %s", server, timeout),
			why:  why,
			next: "ask another node with --server HOST:PORT, or wait longer with --timeout",
		}
	case codes.Canceled:
		return &failure{what: "interrupted before " + server + " answered"}
	case codes.Unimplemented:
		return &failure{
			what: server + " does not understand the question",
			why:  why,
			next: "see if that is the address of a sluice node, and with sluicectl version if it is older than this sluicectl",
		}
	case codes.Unauthenticated, codes.PermissionDenied:
		return forbidden(err, server)
	default:
		return &failure{
			what: fmt.Sprintf("%s answered with an error (%s)", server, status.Code(err)),
			why:  why,
			next: "look into the log of that node, or ask another one with --server HOST:PORT",
		}
	}
}

// reason is the message of a gRPC error without the wrapping of the transport.
func reason(err error) string {
	s := status.Convert(err).Message()
	if quoted, ok := strings.CutPrefix(s, "connection error: desc = "); ok {
		if inner, err := strconv.Unquote(quoted); err == nil {
			s = inner
		}
	}
	s = strings.TrimPrefix(s, "transport: ")
	return strings.TrimPrefix(s, "Error while dialing: ")
}
