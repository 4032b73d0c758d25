//go:build linux

package witness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sluicenet/sluice/pkg/stage"
)

// recorder writes down what one stage of one process does, before it is done: each
// line is one write to a file that is appended to, and so outlives the process.
//
//	E n                                   emitted up to n
//	B session first again attempts run ranges   a batch, before its handler returns
//	S session reason why                  a session has ended
//	D count reason                        events were discarded
//	X why                                 the process has ended by itself
type recorder struct {
	mu       sync.Mutex
	file     *os.File
	sessions map[uint64]*stage.Subscription // whose end is not written down
	said     map[uint64]bool                // those whose end is
	handled  int
}

func newRecorder(spec nodeSpec, s stageSpec) (*recorder, error) {
	name := fmt.Sprintf("%s.%s.%s.%d", s.Pipe, s.Kind, spec.Name, spec.Run)
	f, err := os.OpenFile(filepath.Join(spec.Dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &recorder{file: f, sessions: map[uint64]*stage.Subscription{}, said: map[uint64]bool{}}, err
}

func (r *recorder) write(format string, args ...any) {
	if _, err := fmt.Fprintf(r.file, format+"\n", args...); err != nil {
		panic(err) // a ledger with holes proves nothing
	}
}

func (r *recorder) emitted(n int) { r.write("E %d", n) }

func (r *recorder) discarded(reason string, n int) {
	r.write("D %d %s", n, strings.ReplaceAll(reason, "\n", " "))
}

func (r *recorder) ended(sub *stage.Subscription, e stage.Ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, of := range r.sessions {
		if of == sub {
			r.end(n, e.Reason.String(), fmt.Sprint(e.Err))
		}
	}
}

// left writes down that one publisher is not followed any more. What has come from it may
// be handled later.
func (r *recorder) left(session uint64, how, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(session, how, why)
}

func (r *recorder) end(session uint64, how, why string) {
	delete(r.sessions, session)
	r.said[session] = true
	r.write("S %d %s %s", session, how, strings.ReplaceAll(why, "\n", " "))
}

// batch writes down what a handler was called with.
func (r *recorder) batch(ctx context.Context, events []event) {
	d, ok := stage.Delivery(ctx)
	if !ok {
		panic("no delivery in a handler")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled += len(events)
	session := d.Session
	if !r.said[session] {
		r.sessions[session] = d.Subscription
	}
	var b strings.Builder
	for i := 0; i < len(events); {
		start := i // of what comes from one process
		fmt.Fprintf(&b, "B %d %d %t %d %d ", session, d.First+int64(start), d.Redelivered, d.Attempts, events[start].Run)
		for i < len(events) && events[i].Run == events[start].Run {
			end := i
			for end+1 < len(events) && events[end+1].Run == events[end].Run && events[end+1].N == events[end].N+1 {
				end++
			}
			if i > start {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%d-%d", events[i].N, events[end].N)
			i = end + 1
		}
		b.WriteByte('\n')
	}
	if _, err := r.file.WriteString(b.String()); err != nil {
		panic(err)
	}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handled
}
