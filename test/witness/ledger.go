//go:build linux

package witness

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// incarnation is one process of a node.
type incarnation struct {
	node string
	run  int
}

func (i incarnation) String() string { return fmt.Sprintf("%s/%d", i.node, i.run) }

// A hop is what the ledger says about one outlet: what was emitted, and what its
// subscribers have had.
type hop struct {
	name      string
	producers map[int]*producer // by run
	sessions  []*session
	killed    map[incarnation]bool
	// terms of the subscriptions.
	maxDemand  int
	broadcast  bool
	atMostOnce bool
	steady     bool
	// held is how much a process that emits may hold: what was emitted, and not
	// acknowledged.
	held int
}

// producer is one process that emitted.
type producer struct {
	who       incarnation
	emitted   int
	discarded map[string]int
	ended     bool // by itself
}

// session is one subscription.
type session struct {
	who     incarnation
	id      int
	batches []batch
	reason  string // how it ended; empty when nobody could say
	why     string
}

func (s *session) String() string { return fmt.Sprintf("%v session %d", s.who, s.id) }

// batch is what a handler was called with.
type batch struct {
	first    int64
	again    bool
	attempts int
	run      int
	ranges   [][2]int
}

func (b batch) len() (n int) {
	for _, r := range b.ranges {
		n += r[1] - r[0] + 1
	}
	return n
}

// readHops reads what the stages of a pipeline have written down: about the outlet of
// the source, and about that of the gate.
func readHops(dir string, p Pipeline, killed map[incarnation]bool) (raw, done *hop, err error) {
	raw = &hop{name: p.Name + ".raw", producers: map[int]*producer{}, killed: killed, maxDemand: p.MaxDemand, steady: p.Steady, held: p.MaxDemand}
	done = &hop{name: p.Name + ".done", producers: map[int]*producer{}, killed: killed, maxDemand: p.MaxDemand, steady: p.Steady,
		broadcast: p.Dispatcher == "broadcast", atMostOnce: p.AtMostOnce, held: (1 + p.Sinks) * p.MaxDemand}
	files, err := filepath.Glob(filepath.Join(dir, p.Name+".*"))
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		if len(parts) != 4 {
			return nil, nil, fmt.Errorf("%s is no ledger", file)
		}
		run, err := strconv.Atoi(parts[3])
		if err != nil {
			return nil, nil, err
		}
		produces, consumes := done, raw
		switch parts[1] {
		case "source":
			produces, consumes = raw, nil
		case "sink":
			produces, consumes = nil, done
		}
		if err := read(file, incarnation{parts[2], run}, produces, consumes); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return raw, done, nil
}

// read adds the lines of one stage. A last line that is not whole was written by a
// handler that has not returned.
func read(file string, who incarnation, produces, consumes *hop) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	made := &producer{who: who, discarded: map[string]int{}}
	if produces != nil {
		produces.producers[who.run] = made
	}
	sessions := map[int]*session{}
	of := func(id int) *session {
		if sessions[id] == nil {
			sessions[id] = &session{who: who, id: id}
			consumes.sessions = append(consumes.sessions, sessions[id])
		}
		return sessions[id]
	}
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil // the end, or a line that is not whole
		}
		word := strings.Fields(line)
		switch word[0] {
		case "E":
			made.emitted, err = strconv.Atoi(word[1])
		case "D":
			var n int
			n, err = strconv.Atoi(word[1])
			made.discarded[strings.Join(word[2:], " ")] += n
		case "X":
			made.ended = true
		case "S":
			var id int
			id, err = strconv.Atoi(word[1])
			s := of(id)
			s.reason, s.why = word[2], strings.Join(word[3:], " ")
		case "B":
			var id int
			var b batch
			id, b, err = parseBatch(word)
			s := of(id)
			s.batches = append(s.batches, b)
		default:
			err = fmt.Errorf("unknown line %q", line)
		}
		if err != nil {
			return err
		}
	}
}

func parseBatch(word []string) (id int, b batch, err error) {
	if len(word) != 7 {
		return 0, b, fmt.Errorf("a batch of %d words", len(word))
	}
	numbers := [4]int{}
	for i, at := range []int{1, 2, 4, 5} {
		if numbers[i], err = strconv.Atoi(word[at]); err != nil {
			return 0, b, err
		}
	}
	b = batch{first: int64(numbers[1]), again: word[3] == "true", attempts: numbers[2], run: numbers[3]}
	for r := range strings.SplitSeq(word[6], ",") {
		var x [2]int
		if _, err := fmt.Sscanf(r, "%d-%d", &x[0], &x[1]); err != nil {
			return 0, b, fmt.Errorf("range %q: %w", r, err)
		}
		b.ranges = append(b.ranges, x)
	}
	return numbers[0], b, nil
}
