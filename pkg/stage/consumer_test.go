package stage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// Each file in testdata/consumer is a story of a consumer core. Its commands:
//
//	new
//	subscribe WHO max=N min=N [manual] [transient | temporary]
//	deliver WHO 1..6 [attempts=N]
//	handle [hold]            the next batch is handled and done; all of them with "handle all"
//	take, done N             the same in two steps, of the batch only N events
//	release WHO, cancel WHO
//	end WHO REASON [drop]
//	drain
//	rest WHO [tried]         what goes back to its producer
//
// The answer says what the handler gets, what is asked for, which subscriptions are
// over, and when the stage is.
func TestConsumerStories(t *testing.T) {
	datadriven.Walk(t, "testdata/consumer", func(t *testing.T, path string) {
		s := &consumerStory{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			if out := s.step(t, td); out != "" {
				return out
			}
			return "ok"
		})
	})
}

type consumerStory struct {
	c    consumer[int]
	subs map[string]*inflow[int]
}

func (s *consumerStory) step(t *testing.T, td *datadriven.TestData) string {
	who := ""
	if len(td.CmdArgs) > 0 {
		who = td.CmdArgs[0].Key
	}
	in := s.subs[who]
	switch td.Cmd {
	case "new":
		s.c, s.subs = consumer[int]{}, map[string]*inflow[int]{}
	case "subscribe":
		in = &inflow[int]{name: who, window: newWindow(Terms{
			MaxDemand: int64(valueOf(t, td, "max")), MinDemand: int64(valueOf(t, td, "min")), Manual: td.HasArg("manual"),
		})}
		if td.HasArg("transient") {
			in.mode = Transient
		} else if td.HasArg("temporary") {
			in.mode = Temporary
		}
		s.subs[who], s.c.subs = in, append(s.c.subs, in)
		return asks(in, in.window.Start())
	case "ask":
		in.window.Ask(int64(number(t, td, 1)))
	case "deliver":
		events := numbers(t, &datadriven.TestData{CmdArgs: td.CmdArgs[1:2]})
		attempts := valueOf(t, td, "attempts")
		if !s.c.deliver(in, Batch[int]{Events: events, Attempts: attempts, Redelivered: attempts > 0}) {
			return "not taken"
		}
	case "handle":
		return s.handle(td.HasArg("all"), td.HasArg("hold"))
	case "take":
		return s.take()
	case "done":
		return s.done(number(t, td, 0), td.HasArg("hold"))
	case "release":
		return asks(in, in.release())
	case "cancel":
		in.leaving = true
	case "end":
		reason := map[string]Reason{"completed": Completed, "shutdown": Shutdown, "cancelled": Cancelled,
			"failed": Failed, "refused": Refused, "lost": Lost}[td.CmdArgs[1].Key]
		require.NotZero(t, reason)
		e := Ending{Reason: reason, Drop: td.HasArg("drop")}
		if !reason.Normal() {
			e.Err = errors.New("oops")
		}
		s.c.end(in, e)
	case "drain":
		s.c.drain()
	case "rest":
		var out strings.Builder
		tried := 0
		if td.HasArg("tried") {
			tried = inHand
		}
		rest, _ := s.c.rest(in, tried)
		for _, r := range rest {
			fmt.Fprintf(&out, "%d (after %d attempts)\n", r.Event, r.Attempts)
		}
		return out.String()
	default:
		td.Fatalf(t, "unknown command")
	}
	return ""
}

func (s *consumerStory) handle(all, hold bool) string {
	var out strings.Builder
	for {
		out.WriteString(s.take())
		if s.c.hand.in == nil {
			return out.String()
		}
		out.WriteString(s.done(s.c.hand.n, hold))
		if !all {
			return out.String()
		}
	}
}

func (s *consumerStory) take() string {
	var out strings.Builder
	next, ended, ok := s.c.next()
	events := next.events
	for _, in := range ended {
		fmt.Fprintf(&out, "%s is over: %s\n", in.name, in.ending.Reason)
	}
	if ok {
		fmt.Fprintf(&out, "handler <- %s %s\n", s.c.hand.in.name, strings.Trim(fmt.Sprint(events), "[]"))
	}
	if v := s.c.over; v != nil {
		fmt.Fprintf(&out, "the stage is over: %s %v\n", v.ending().Reason, v.err)
	}
	return out.String()
}

func (s *consumerStory) done(n int, hold bool) string {
	in, ask, ack := s.c.done(n, hold)
	if ack {
		return fmt.Sprintf("%s acks %d\n", in.name, in.window.Acked())
	}
	return asks(in, ask)
}

func asks(in *inflow[int], n int64) string {
	switch {
	case n > 0:
		return fmt.Sprintf("%s asks %d, acks %d\n", in.name, n, in.window.Acked())
	case in.window.Held() > 0:
		return fmt.Sprintf("%s holds %d\n", in.name, in.window.Held())
	}
	return ""
}
