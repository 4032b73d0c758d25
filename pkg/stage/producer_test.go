package stage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
)

// Each producer_*.txt in testdata is a story of a producer core. Its commands:
//
//	new DISPATCHER [COUNT] [last=N | first=N] [accumulate]   partitions are by number modulo COUNT; no limit
//	join WHO [partition=N] [at-most-once] [keep=even | keep=none] [max=N]
//	forward, wanted
//	ask WHO N [acked=N], ack WHO N, revoke WHO, undelivered WHO N
//	leave WHO [acked=N]                           what was sent is processed first
//	fail WHO [acked=N] [tried=N]                  gives back what is not acknowledged
//	emit 1..6 | 4 7 9
//	close completed | failed, hurry, abandon
//
// The answer says what is done, what waits after it, how much more the source is
// told to produce ("told"), and where that is not all how much it is asked for now.
func TestProducerStories(t *testing.T) {
	datadriven.Walk(t, "testdata/producer", func(t *testing.T, path string) {
		s := &producerStory{}
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			return s.do(t, td)
		})
	})
}

type producerStory struct {
	p    producer[int]
	subs map[string]*outflow[int]
	sent map[string][]Returned[int]
	note string
}

func (s *producerStory) do(t *testing.T, td *datadriven.TestData) string {
	told := s.p.unmet
	err := s.step(t, td)
	var out strings.Builder
	out.WriteString(s.note)
	s.note = ""
	if err != nil {
		fmt.Fprintf(&out, "error: %v\n", err)
		if sub := s.subs[td.CmdArgs[0].Key]; sub != nil && td.Cmd != "join" {
			s.p.refuse(sub, err)
		}
	}
	for _, o := range s.p.todo {
		out.WriteString(s.tell(o))
	}
	s.p.todo = s.p.todo[:0]
	s.p.store.sweep()
	for l := range s.p.store.lanes {
		if n := s.p.store.waiting(l); n > 0 {
			fmt.Fprintf(&out, "waiting%s: %s\n", laneName(len(s.p.store.lanes), l), s.waits(l))
		}
	}
	if s.p.unmet > told {
		fmt.Fprintf(&out, "told %d\n", s.p.unmet-told)
	}
	for _, h := range s.p.held {
		fmt.Fprintf(&out, "held: %d of %s\n", h.n, h.sub.terms.Stage)
	}
	if n := s.p.wanted(); n != s.p.unmet {
		fmt.Fprintf(&out, "wanted now: %d of %d\n", n, s.p.unmet)
	}
	if out.Len() == 0 {
		return "ok"
	}
	return out.String()
}

func laneName(lanes, l int) string {
	if lanes == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d", l)
}

func (s *producerStory) waits(l int) string {
	ln := &s.p.store.lanes[l]
	var words []string
	for _, r := range slices.Backward(ln.back) {
		words = append(words, fmt.Sprintf("(%d)", r.Event))
	}
	for _, e := range ln.fresh.items() {
		words = append(words, strconv.Itoa(e))
	}
	return strings.Join(words, " ")
}

func (s *producerStory) tell(o order[int]) string {
	if o.discard != "" {
		return fmt.Sprintf("discarded %d: %s\n", o.count, o.discard)
	}
	who := o.sub.terms.Stage
	switch {
	case o.unlike != 0:
		return fmt.Sprintf("%s has another max demand than %d\n", who, o.unlike)
	case o.opened:
		return who + " is accepted\n"
	case o.ending != nil:
		return strings.TrimSuffix(fmt.Sprintf("%s ends: %s, %v", who, o.ending.Reason, o.ending.Err), ", <nil>") + "\n"
	}
	note := ""
	if o.batch.Redelivered {
		note = fmt.Sprintf(" (again, after %d attempts)", o.batch.Attempts)
	}
	for _, e := range o.batch.Events {
		s.sent[who] = append(s.sent[who], Returned[int]{Event: e, Attempts: o.batch.Attempts})
	}
	return fmt.Sprintf("%s <- %s%s\n", who, strings.Trim(fmt.Sprint(o.batch.Events), "[]"), note)
}

func (s *producerStory) step(t *testing.T, td *datadriven.TestData) (err error) {
	who := ""
	if len(td.CmdArgs) > 0 {
		who = td.CmdArgs[0].Key
	}
	sub := s.subs[who]
	acked := int64(valueOf(t, td, "acked"))
	switch td.Cmd {
	case "new":
		s.subs, s.sent = map[string]*outflow[int]{}, map[string][]Returned[int]{}
		count := 0
		if who == "partition" {
			count = number(t, td, 1)
		}
		s.p = newProducer(newDispatcher(who, count), bufferOf(t, td))
		s.p.holding = td.HasArg("accumulate")
	case "join":
		terms := Terms{Stage: who, Partition: dispatch.NoPartition, AtMostOnce: td.HasArg("at-most-once")}
		if td.HasArg("partition") {
			terms.Partition = valueOf(t, td, "partition")
		}
		terms.MaxDemand = int64(valueOf(t, td, "max"))
		var keep func(int) bool
		if td.HasArg("keep") {
			var which string
			td.ScanArgs(t, "keep", &which)
			keep = keeps[which]
		}
		if sub, err = s.p.join(terms, keep, nil); err == nil {
			s.subs[who], s.sent[who] = sub, nil
		}
	case "forward":
		s.p.forward()
	case "wanted":
		s.note = fmt.Sprintf("%d\n", s.p.wanted())
	case "ask":
		err = s.p.ask(sub, int64(number(t, td, 1)), acked, nil)
	case "ack":
		err = s.p.ack(sub, int64(number(t, td, 1)), nil)
	case "revoke":
		s.note = fmt.Sprintf("took back %d\n", s.p.revoke(sub))
	case "undelivered":
		s.p.giveUp(sub, number(t, td, 1), "too large")
	case "leave":
		require.NoError(t, s.p.book(sub, acked, nil))
		s.p.leave(sub, Ending{Reason: Cancelled})
	case "fail":
		require.NoError(t, s.p.book(sub, acked, nil))
		rest := append([]Returned[int]{}, s.sent[who][sub.ledger.Acked():]...)
		for i := range valueOf(t, td, "tried") {
			rest[i].Attempts++
		}
		s.p.fail(sub, Ending{Reason: Cancelled}, rest)
	case "emit":
		s.p.emit(numbers(t, td))
	case "close":
		s.p.close(map[string]Ending{"completed": {Reason: Completed}, "failed": {Reason: Failed, Err: errors.New("oops")}}[who])
	case "hurry":
		s.p.hurry()
	case "abandon":
		s.p.abandon()
	default:
		td.Fatalf(t, "unknown command")
	}
	return err
}

var keeps = map[string]func(int) bool{
	"even": func(n int) bool { return n%2 == 0 },
	"none": func(int) bool { return false },
}

func newDispatcher(kind string, n int) dispatch.Dispatcher[int] {
	switch kind {
	case "demand":
		return dispatch.Demand[int]()
	case "broadcast":
		return dispatch.Broadcast[int]()
	}
	return dispatch.Partition(n, func(i int) int { return i })
}

func bufferOf(t *testing.T, td *datadriven.TestData) Buffer {
	switch {
	case td.HasArg("last"):
		return KeepLast(valueOf(t, td, "last"))
	case td.HasArg("first"):
		return KeepFirst(valueOf(t, td, "first"))
	}
	return Unlimited()
}

// valueOf is the value of an argument like acked=3, or 0.
func valueOf(t *testing.T, td *datadriven.TestData, name string) (n int) {
	if td.HasArg(name) {
		td.ScanArgs(t, name, &n)
	}
	return n
}

// numbers reads "1..6" and "4 7 9".
func numbers(t *testing.T, td *datadriven.TestData) (out []int) {
	for i, a := range td.CmdArgs {
		first, last, ok := strings.Cut(a.Key, "..")
		if !ok {
			out = append(out, number(t, td, i))
			continue
		}
		from, err := strconv.Atoi(first)
		require.NoError(t, err)
		to, err := strconv.Atoi(last)
		require.NoError(t, err)
		for ; from <= to; from++ {
			out = append(out, from)
		}
	}
	return out
}

// number is the i-th argument, or 0 where there is none.
func number(t *testing.T, td *datadriven.TestData, i int) int {
	if i >= len(td.CmdArgs) || len(td.CmdArgs[i].Vals) > 0 {
		return 0
	}
	n, err := strconv.Atoi(td.CmdArgs[i].Key)
	require.NoError(t, err, td.Pos)
	return n
}

// A producer that comes to its end does not wait for events that were sent and given up.
func TestGivenUpIsNotWaitedFor(t *testing.T) {
	p := newProducer(dispatch.Demand[int](), KeepLast(10))
	sub, err := p.join(Terms{Partition: dispatch.NoPartition}, nil, nil)
	require.NoError(t, err)
	require.NoError(t, p.ask(sub, 2, 0, nil))
	p.emit([]int{1, 2})
	p.close(Ending{Reason: Completed})
	p.giveUp(sub, 1, "on purpose")
	require.False(t, p.ended, "one is on its way")
	p.giveUp(sub, 1, "on purpose")
	require.True(t, p.ended)
}
