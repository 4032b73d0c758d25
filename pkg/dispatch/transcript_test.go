package dispatch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/stretchr/testify/require"
)

// There is a file of stories for each kind of dispatcher. Their commands:
//
//	new demand | broadcast | partition COUNT    a dispatcher; an event's partition is its number
//	join WHO [partition=N] [selector]
//	ask WHO N, revoke WHO, leave WHO
//	dispatch 1..6 | 4 7 9                       events come, behind those that wait
//
// The answer says who is given what, what waits after it, and the demand where it
// has changed.
func TestTranscripts(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var s *story
			datadriven.RunTest(t, "testdata/"+kind+".txt", func(t *testing.T, td *datadriven.TestData) string {
				if td.Cmd == "new" {
					s = newStory(kinds[td.CmdArgs[0].Key](number(t, td, 1)))
					return fmt.Sprintf("%s, %d lanes", s.d.Kind(), s.d.Lanes())
				}
				return s.do(t, td)
			})
		})
	}
}

var kinds = map[string]func(int) dispatch.Dispatcher[int]{
	"demand":    func(int) dispatch.Dispatcher[int] { return dispatch.Demand[int]() },
	"broadcast": func(int) dispatch.Dispatcher[int] { return dispatch.Broadcast[int]() },
	"partition": func(n int) dispatch.Dispatcher[int] {
		return dispatch.Partition(n, func(i int) int { return i })
	},
}

// story is a dispatcher with subscribers that have names and events that wait.
type story struct {
	d     dispatch.Dispatcher[int]
	ids   map[string]dispatch.ID
	names map[dispatch.ID]string
	lanes [][]int
}

func newStory(d dispatch.Dispatcher[int]) *story {
	return &story{d, map[string]dispatch.ID{}, map[dispatch.ID]string{}, make([][]int, d.Lanes())}
}

func (s *story) do(t *testing.T, td *datadriven.TestData) string {
	var out strings.Builder
	before := s.d.Demand()
	who := td.CmdArgs[0].Key
	switch td.Cmd {
	case "join":
		id := dispatch.ID(len(s.names) + 1)
		terms := dispatch.Terms{Partition: dispatch.NoPartition, Selector: td.HasArg("selector")}
		if td.HasArg("partition") {
			td.ScanArgs(t, "partition", &terms.Partition)
		}
		if err := s.d.Join(id, terms); err != nil {
			return "refused: " + err.Error()
		}
		s.ids[who], s.names[id] = id, who
	case "ask":
		s.d.Ask(s.ids[who], int64(number(t, td, 1)))
	case "revoke":
		fmt.Fprintf(&out, "took back %d\n", s.d.Revoke(s.ids[who]))
	case "leave":
		s.d.Leave(s.ids[who])
	case "dispatch":
		for _, e := range events(t, td) {
			l := s.d.Lane(e)
			s.lanes[l] = append(s.lanes[l], e)
		}
	default:
		td.Fatalf(t, "unknown command")
	}
	out.WriteString(s.deliver())
	if after := s.d.Demand(); after != before {
		fmt.Fprintf(&out, "demand %d\n", after)
	}
	if out.Len() == 0 {
		return "ok"
	}
	return out.String()
}

// deliver calls Next until nothing more goes out.
func (s *story) deliver() string {
	var out strings.Builder
	for {
		d, ok := s.d.Next(func(l int) int { return len(s.lanes[l]) })
		if !ok {
			break
		}
		for _, id := range d.To {
			fmt.Fprintf(&out, "%s <- %s\n", s.names[id], words(s.lanes[d.Lane][:d.N]))
		}
		s.lanes[d.Lane] = s.lanes[d.Lane][d.N:]
	}
	for l, events := range s.lanes {
		if len(events) > 0 && len(s.lanes) > 1 {
			fmt.Fprintf(&out, "leftover in %d: %s\n", l, words(events))
		} else if len(events) > 0 {
			fmt.Fprintf(&out, "leftover %s\n", words(events))
		}
	}
	return out.String()
}

func words(events []int) string { return strings.Trim(fmt.Sprint(events), "[]") }

// events reads "1..6" and "4 7 9".
func events(t *testing.T, td *datadriven.TestData) (out []int) {
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
	if i >= len(td.CmdArgs) {
		return 0
	}
	n, err := strconv.Atoi(td.CmdArgs[i].Key)
	require.NoError(t, err, td.Pos)
	return n
}
