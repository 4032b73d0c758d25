package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const tapHelp = `Show events as they leave an outlet, on whatever node offers it. A tap takes no
credits and never slows the flow: what it cannot carry it drops and counts, and says
how much that was when it ends. It ends when -n events are shown, when the outlet
ends, or with Ctrl-C.

An event is one line: as it is when its codec is text, json or bytes, and quoted when
it is written in another codec or does not print on one line.

With -o json each event is one JSON object on a line of its own.

JSON keys of an event:
  node          the node that it left
  codec         how it is written
  event         the event, as a string; only if it is valid UTF-8
  event_base64  the event in base64; only if it is not valid UTF-8
  missed        how many events passed unseen before it

Exit codes: 0 it ended well, 1 an error, 2 a wrong command line, 3 it ended well, and
some nodes that offer the outlet could not be tapped: stderr names them.`

const tapExample = `  sluicectl tap numbers -n 10
  sluicectl tap orders -o json | jq -r .event`

type tapped struct {
	Node        string  `json:"node"`
	Codec       string  `json:"codec"`
	Event       *string `json:"event,omitempty"`
	EventBase64 []byte  `json:"event_base64,omitempty"`
	Missed      int64   `json:"missed"`
}

func (a *app) tap() *cobra.Command {
	var limit int64
	cmd := &cobra.Command{
		Use:     "tap OUTLET",
		Short:   "Show events as they leave an outlet",
		Long:    tapHelp,
		Example: tapExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{"tap takes the name of one outlet"}
			}
			return nil
		},
		ValidArgsFunction: a.completeOutlets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return &usageError{"--limit must not be negative"}
			}
			return a.showEvents(cmd.Context(), args[0], limit)
		},
	}
	cmd.Flags().Int64VarP(&limit, "limit", "n", 0, "end after `N` events; 0 goes on until you leave")
	return cmd
}

// errNotConnected ends a tap that has not got a connection in time.
var errNotConnected = errors.New("not connected in time")

func (a *app) showEvents(ctx context.Context, outlet string, limit int64) error {
	client, closeConn, err := a.connect()
	if err != nil {
		return err
	}
	defer closeConn()

	// The timeout is for the connection only. Tap returns when there is one.
	tapCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connecting := time.AfterFunc(a.timeout, func() { cancel(errNotConnected) })
	stream, err := client.Tap(tapCtx, &sluicev1.TapRequest{
		Outlet: outlet,
		Limit:  limit,
		Scope:  sluicev1.Scope_SCOPE_CLUSTER,
	})
	connecting.Stop()
	connected := err == nil

	var shown, missed int64
	partial := false
	for err == nil && (limit == 0 || shown < limit) {
		var got *sluicev1.TapResponse
		if got, err = stream.Recv(); err != nil {
			break
		}
		if silent := got.GetUnreachable(); len(silent) > 0 {
			partial = true
			a.name(unreachables(silent))
			continue
		}
		if err := a.show(got); err != nil {
			return err
		}
		shown++
		missed += got.GetMissed()
	}

	switch {
	case context.Cause(tapCtx) == errNotConnected:
		return explain(status.Error(codes.DeadlineExceeded, "there is no connection"), a.server, a.timeout)
	case err == nil, err == io.EOF, ctx.Err() != nil:
		a.summarize(outlet, shown, missed)
		if partial {
			return errPartial
		}
		return nil
	case status.Code(err) == codes.NotFound:
		return &failure{
			what: fmt.Sprintf("there is no outlet %q", outlet),
			why:  reason(err),
			next: "see what there is with sluicectl outlets",
		}
	}
	if shown > 0 {
		a.summarize(outlet, shown, missed)
	}
	if connected && status.Code(err) == codes.Unavailable {
		return &failure{
			what: "the connection to " + a.server + " is lost",
			why:  reason(err),
			next: "tap again, or ask another node with --server HOST:PORT",
		}
	}
	return explain(err, a.server, a.timeout)
}

func (a *app) summarize(outlet string, shown, missed int64) {
	fmt.Fprintf(a.stderr, "%s: %d shown, %d missed\n", oneLine(outlet), shown, missed)
}

func (a *app) show(got *sluicev1.TapResponse) error {
	if a.output == formatJSON {
		e := json.NewEncoder(a.stdout)
		e.SetEscapeHTML(false)
		return e.Encode(newTapped(got))
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n", eventLine(got.GetCodec(), got.GetEvent()))
	return err
}

func newTapped(got *sluicev1.TapResponse) tapped {
	t := tapped{Node: got.GetNode(), Codec: got.GetCodec(), Missed: got.GetMissed()}
	if utf8.Valid(got.GetEvent()) {
		event := string(got.GetEvent())
		t.Event = &event
	} else {
		t.EventBase64 = got.GetEvent()
	}
	return t
}

// eventLine is an event that takes one line and leaves the terminal alone.
func eventLine(codec string, event []byte) string {
	switch codec {
	case "json":
		var compact bytes.Buffer
		if !printable(event) && json.Compact(&compact, event) == nil {
			event = compact.Bytes()
		}
		fallthrough
	case "text", "bytes":
		if printable(event) {
			return string(event)
		}
	}
	return strconv.Quote(string(event))
}

func printable(event []byte) bool {
	return utf8.Valid(event) && !bytes.ContainsFunc(event, func(r rune) bool {
		return unicode.IsControl(r) && r != '\t'
	})
}

// completeOutlets offers the names of outlets to the shell. It does not wait long,
// and has nothing to offer where no node answers.
func (a *app) completeOutlets(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	client, closeConn, err := a.connect()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closeConn()
	ctx, cancel := context.WithTimeout(cmd.Context(), min(a.timeout, time.Second))
	defer cancel()
	got, err := listOutlets(ctx, client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, o := range got.Outlets {
		if len(names) == 0 || names[len(names)-1] != o.Name { // they are sorted
			names = append(names, o.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
