package wire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"github.com/stretchr/testify/require"
)

// A transcript drives one half by hand. Every command prints what the half wants
// done, or the error, and then where it stands.

func TestProducerTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/producer", func(t *testing.T, path string) {
		var p *Producer
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			said, err := runProducer(t, &p, d)
			if err != nil {
				said = "error " + err.Error()
			}
			if p == nil {
				return said + "\n"
			}
			require.NoError(t, lawOfProducer(p))
			return said + "\n" + showProducer(p) + "\n"
		})
	})
}

func runProducer(t *testing.T, p **Producer, d *datadriven.TestData) (string, error) {
	a := args{t, d}
	switch d.Cmd {
	case "new":
		made, step, err := NewProducer(a.opening(), a.int("max", 100), a.int("ahead", 100))
		*p = made
		return showStep(step), err
	case "resume":
		step, err := (*p).Resume(a.opening())
		return showStep(step), err
	case "ask":
		step, err := (*p).Ask(a.int("n", 0), a.int("acked", 0), a.done())
		return showStep(step), err
	case "ack":
		step, err := (*p).Ack(a.int("acked", 0), a.done())
		return showStep(step), err
	case "cancel":
		step, err := (*p).Cancel(a.kind(), a.int("acked", 0), a.done())
		return showStep(step), err
	case "emit":
		step, err := (*p).Emit(a.int("n", 0))
		if err != nil || step.Allot == 0 {
			return "ok", err
		}
		return showStep(step), nil
	case "ahead":
		(*p).Ahead(a.int("n", 0))
		return "ok", nil
	case "write":
		first, last, ok := (*p).Pending()
		if !ok {
			return "nothing to write", nil
		}
		(*p).Wrote(min(last, a.int("to", last)))
		return fmt.Sprintf("wrote %d..%d", first, min(last, a.int("to", last))), nil
	case "write-end":
		end, ok := (*p).EndDue()
		if !ok {
			return "no End is due", nil
		}
		(*p).WroteEnd()
		return "wrote End{" + oneLine(end) + "}", nil
	case "end":
		(*p).End(sluicev1.EndReason_END_REASON_COMPLETED, a.str("message"))
		return "ok", nil
	case "half-close":
		finished, err := (*p).HalfClose()
		return fmt.Sprintf("finished %v", finished), err
	case "detach":
		(*p).Detach(a.int("revoked", 0))
		return "ok", nil
	case "expire":
		return showStep((*p).Expire()), nil
	}
	t.Fatalf("no command %s", d.Cmd)
	return "", nil
}

func showStep(s Step) string {
	var parts []string
	if len(s.Return) > 0 {
		parts = append(parts, fmt.Sprintf("return %v", s.Return))
	}
	if s.Release > 0 {
		parts = append(parts, fmt.Sprintf("release %d", s.Release))
	}
	if s.Allot > 0 {
		parts = append(parts, "allot "+showCount(s.Allot))
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

func showProducer(p *Producer) string {
	s := fmt.Sprintf("  acked %d sent %d granted %s, next %d, credit %s, allotted %d",
		p.Acked(), p.Sent(), showCount(p.Granted()), p.Next(), showCount(p.Credit()), p.Allotted())
	if p.Stream() == 0 {
		s += ", no stream"
	} else {
		s += fmt.Sprintf(", stream %d", p.Stream())
	}
	if p.Ended() {
		s += ", ended"
	}
	if p.Failed() {
		s += ", failed"
	}
	return s
}

func TestConsumerTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/consumer", func(t *testing.T, path string) {
		var c *Consumer
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			said, err := runConsumer(t, &c, d)
			if err != nil {
				said = "error " + err.Error()
			}
			require.NoError(t, lawOfConsumer(c))
			return said + "\n" + showConsumer(c) + "\n"
		})
	})
}

func runConsumer(t *testing.T, c **Consumer, d *datadriven.TestData) (string, error) {
	a := args{t, d}
	switch d.Cmd {
	case "new":
		*c = NewConsumer(1, 1, a.int("granted", 0))
		return "ok", nil
	case "open":
		o := (*c).Open()
		return "Open{" + oneLine(OpenFrame(&sluicev1.Open{}, o).GetOpen()) + "}", nil
	case "opened":
		return "ok", (*c).Opened(uint64(a.int("epoch", 7)), a.int("granted", (*c).Granted()), a.int("next", (*c).Received()+1))
	case "batch":
		take, err := (*c).Batch(a.int("first", (*c).Received()+1), a.int("n", 1))
		return fmt.Sprintf("take %v", take), err
	case "ask":
		return "ok", (*c).Ask(a.int("n", 0))
	case "processed":
		return "ok", (*c).Processed(a.int("to", 0), a.done(), a.has("idle"))
	case "repeat":
		(*c).Repeat()
		return "ok", nil
	case "cancel":
		return "ok", (*c).Cancel(a.kind(), a.str("why"))
	case "end":
		return "ok", (*c).End(a.int("last", (*c).Received()), sluicev1.EndReason_END_REASON_COMPLETED, "")
	case "next":
		var said []string
		for {
			frame, halfClose := (*c).Next()
			switch {
			case halfClose:
				said = append(said, "half-close")
			case frame != nil:
				said = append(said, "send "+oneLine(frame))
			case len(said) == 0:
				return "nothing to send", nil
			default:
				return strings.Join(said, "\n"), nil
			}
		}
	case "broken":
		(*c).Broken()
		return "ok", nil
	case "refused":
		return (*c).Refused(Rule(a.str("rule")), uint64(a.int("epoch", 7))).String(), nil
	case "closed":
		return (*c).Closed().String(), nil
	case "expire":
		return (*c).Expire().String(), nil
	}
	t.Fatalf("no command %s", d.Cmd)
	return "", nil
}

func showConsumer(c *Consumer) string {
	s := fmt.Sprintf("  acked %d received %d granted %s", c.Acked(), c.Received(), showCount(c.Granted()))
	if done := c.Done(); len(done) > 0 {
		s += fmt.Sprintf(", done %v", done)
	}
	switch {
	case c.Stream() == 0:
		s += ", no stream"
	case c.Opening():
		s += fmt.Sprintf(", opening stream %d", c.Stream())
	default:
		s += fmt.Sprintf(", stream %d, epoch %d", c.Stream(), c.Epoch())
	}
	if _, _, ok := c.Ended(); ok {
		s += ", ended"
	}
	if c.Failed() {
		s += ", failed"
	}
	return s
}

func showCount(n int64) string {
	if n == credit.Unbounded {
		return "unbounded"
	}
	return strconv.FormatInt(n, 10)
}

// oneLine is the text of a message. The spaces that prototext varies on purpose
// are made even.
func oneLine(m interface{ String() string }) string {
	return strings.Join(strings.Fields(m.String()), " ")
}

// args reads the arguments of a command.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) has(key string) bool { return a.d.HasArg(key) }

func (a args) str(key string) string {
	var s string
	a.d.MaybeScanArgs(a.t, key, &s)
	return s
}

func (a args) int(key string, otherwise int64) int64 {
	switch s := a.str(key); s {
	case "":
		return otherwise
	case "unbounded":
		return credit.Unbounded
	default:
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(a.t, err)
		return n
	}
}

// done reads done=(4-5,7-9).
func (a args) done() []credit.Range {
	var out []credit.Range
	for _, arg := range a.d.CmdArgs {
		if arg.Key != "done" {
			continue
		}
		for _, val := range arg.Vals {
			var r credit.Range
			_, err := fmt.Sscanf(val, "%d-%d", &r.First, &r.Last)
			require.NoError(a.t, err)
			out = append(out, r)
		}
	}
	return out
}

func (a args) kind() sluicev1.CancelKind {
	switch {
	case a.has("drain"):
		return sluicev1.CancelKind_CANCEL_KIND_DRAIN
	case a.has("failed"):
		return sluicev1.CancelKind_CANCEL_KIND_FAILED
	}
	return sluicev1.CancelKind_CANCEL_KIND_UNSPECIFIED
}

func (a args) opening() Opening {
	return Opening{
		Triple:   Triple{Incarnation: 1, Session: uint64(a.int("session", 1)), Attempt: uint64(a.int("attempt", 1))},
		Known:    a.has("known"),
		Granted:  a.int("granted", 0),
		Received: a.int("received", 0),
		Acked:    a.int("acked", 0),
		Done:     a.done(),
	}
}
