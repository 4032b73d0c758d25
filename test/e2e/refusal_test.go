//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// hand is a client that is driven by hand: it sends frames as JSON, as grpcurl does,
// whatever they say.
type hand struct {
	t      *testing.T
	stream sluicev1.SubscriptionService_SubscribeClient
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func subscribe(t *testing.T, address string) *hand {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := sluicev1.NewSubscriptionServiceClient(dial(t, address)).Subscribe(ctx, grpc.WaitForReady(true))
	require.NoError(t, err)
	return &hand{t, stream}
}

func (h *hand) send(frame string, args ...any) {
	h.t.Helper()
	f := new(sluicev1.SubscriberFrame)
	require.NoError(h.t, protojson.Unmarshal(fmt.Appendf(nil, frame, args...), f))
	err := h.stream.Send(f)
	if err != io.EOF { // the stream is over: the refusal says why
		require.NoError(h.t, err)
	}
}

// refusal reads until the stream ends, and returns the rule and the text of its status.
func (h *hand) refusal() (rule, text string) {
	h.t.Helper()
	for {
		_, err := h.stream.Recv()
		if err == nil {
			continue
		}
		s := status.Convert(err)
		for _, d := range s.Details() {
			if r, ok := d.(*sluicev1.Refusal); ok {
				require.NotZero(h.t, r.GetEpoch())
				return r.GetRule(), s.Message()
			}
		}
		require.NoError(h.t, err, "the stream broke without a rule")
	}
}

const open = `{"open": {"protocol": 1, "outlet": %q, "subscriber": {"node": "hand", "stage": %q}, "incarnation": 1, "session": 1, "attempt": 1,
	"event_type": %q, "codec": %q, "granted": 10, "max_frame_bytes": 4194304}}`

// What is not allowed is refused by the name of the rule, and the subscription beside
// it flows on.
func TestRefusals(t *testing.T) {
	c := newCluster(t)
	out := c.path("out.txt")
	a := c.node("a", `numbers: {source: generate, with: {rate: 2000}}`, "--reflection")
	d := c.node("c", fmt.Sprintf(`out: {sink: file, from: numbers, with: {path: %q}}`, out))
	written := func() float64 {
		row := c.row("a", "stages", "stages", map[string]any{"name": "out"})
		if row == nil {
			return 0
		}
		return row["events_in"].(float64)
	}
	eventually(t, func() bool { return written() > 0 }, "the flow flows")
	before := written()

	for name, test := range map[string]struct {
		frames []string
		rule   string
		says   string
	}{
		"Ask(0)":                {[]string{fmt.Sprintf(open, "numbers", "s1", "string", "text"), `{"ask": {"n": 0}}`}, "ask-not-positive", "Ask(0)"},
		"Ask(-1)":               {[]string{fmt.Sprintf(open, "numbers", "s2", "string", "text"), `{"ask": {"n": -1}}`}, "ask-not-positive", "Ask(-1)"},
		"Ask before Open":       {[]string{`{"ask": {"n": 1}}`}, "first-frame-not-open", "Open"},
		"Open twice":            {[]string{fmt.Sprintf(open, "numbers", "s3", "string", "text"), fmt.Sprintf(open, "numbers", "s3", "string", "text")}, "open-twice", "Open"},
		"an unknown outlet":     {[]string{fmt.Sprintf(open, "letters", "s4", "string", "text")}, "unknown-outlet", "letters"},
		"a wrong event type":    {[]string{fmt.Sprintf(open, "numbers", "s5", "int", "text")}, "type-mismatch", "int"},
		"a wrong codec":         {[]string{fmt.Sprintf(open, "numbers", "s6", "string", "json")}, "codec-mismatch", "json"},
		"an ack of what is not": {[]string{fmt.Sprintf(open, "numbers", "s7", "string", "text"), `{"ack": {"acked": 1000000}}`}, "ack-beyond-sent", "1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			h := subscribe(t, c.grpc["a"])
			for _, f := range test.frames {
				h.send("%s", f)
			}
			rule, text := h.refusal()
			require.Equal(t, test.rule, rule)
			require.Contains(t, text, test.says)
		})
	}
	// It was opened above: this one is late.
	h := subscribe(t, c.grpc["a"])
	h.send(open, "numbers", "s7", "string", "text")
	rule, _ := h.refusal()
	require.Equal(t, "stale-open", rule)

	eventually(t, func() bool { return written() > before+1000 }, "the others do not notice")
	require.True(t, a.Running())
	require.True(t, d.Running())
}

// With --reflection, tools such as grpcurl can ask what there is; without, they cannot.
func TestReflection(t *testing.T) {
	c := newCluster(t)
	c.node("a", `numbers: {source: generate, with: {rate: 1}}`, "--reflection")
	c.node("b", `letters: {source: generate, with: {rate: 1}}`)
	services := func(at string) (names []string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		stream, err := reflectionv1.NewServerReflectionClient(dial(t, c.grpc[at])).ServerReflectionInfo(ctx, grpc.WaitForReady(true))
		require.NoError(t, err)
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
		reply, err := stream.Recv()
		for _, s := range reply.GetListServicesResponse().GetService() {
			names = append(names, s.GetName())
		}
		return names, err
	}
	names, err := services("a")
	require.NoError(t, err)
	require.Contains(t, names, "sluice.v1.SubscriptionService")
	_, err = services("b")
	require.ErrorContains(t, err, "unknown service")
}
