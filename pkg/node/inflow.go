package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// inflow is the consumer's end of a subscription at one publisher, a member of its
// group: an upstream to the stage that consumes, and a session to the producer. It
// opens a stream, and opens another one when that breaks, inside the resume window.
//
// run owns the streams: it reads, and starts one goroutine for each stream that
// writes, for whoever does not write itself. The lock guards the session; no receiver is
// called while it is held.
type inflow[T any] struct {
	n       *Node
	g       *following[T]
	at      publisher // where the session is
	port    wire.Port[T]
	codec   wire.Codec[T]
	terms   stage.Terms
	to      stage.Receiver[T]
	about   *sluicev1.Open
	session uint64
	wake    chan struct{}   // there may be something to write, or a reason to look again
	hurry   chan struct{}   // a session that is broken need not wait
	before  <-chan struct{} // closed when an earlier session at the publisher is over; or nil
	done    chan struct{}   // closed when it is over

	mu       sync.Mutex
	core     *wire.Consumer
	lent     []lentFrame // in the order of their positions
	writer   *writer[T]  // of the current stream, or nil
	state    string
	why      error // what it waits for
	since    time.Time
	given    bool      // Ended was called: the stage has heard the last of it
	unwanted time.Time // when the stage cancelled, or zero
	until    time.Time // by when the producer will have ended, as it has said; or zero
	mute     bool      // the producer does not answer a Cancel
	replaced bool      // the node was started anew
}

// newInflow is entered at the stage, which sets to, before it runs.
func newInflow[T any](g *following[T], at publisher) *inflow[T] {
	session := g.n.sessions.Add(1)
	return &inflow[T]{
		n: g.n, g: g, at: at, port: g.port, codec: g.port.Codec(), terms: g.terms, about: g.about, session: session,
		core: wire.NewConsumer(g.n.incarnation, session, 0),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), done: make(chan struct{}),
		state: "opening", since: time.Now(), why: fmt.Errorf("node %q is about to be asked", at.node),
	}
}

func unoffered(outlet string) error {
	return &wire.Error{Rule: wire.RuleUnknownOutlet, Outlet: outlet, What: "no node offers it"}
}

// Ask implements stage.Upstream.
func (i *inflow[T]) Ask(n, acked int64, done ...stage.Range) error {
	i.mu.Lock()
	// After the end it asks for nothing, and still acknowledges.
	i.processed(acked, done, i.given)
	err := i.core.Ask(n)
	w := i.writer
	i.mu.Unlock()
	i.say(w)
	return err
}

// Ack implements stage.Upstream.
func (i *inflow[T]) Ack(acked int64, done ...stage.Range) error {
	i.mu.Lock()
	i.processed(acked, done, true)
	w := i.writer
	i.mu.Unlock()
	i.say(w)
	return nil
}

// say writes what there is to say on the caller's goroutine, where that does not wait,
// and lets the writer's do it elsewhere.
func (i *inflow[T]) say(w *writer[T]) {
	if w == nil || !w.lend() {
		i.poke()
	}
}

// processed books what is processed. What is booked already is no news: asks come
// from several goroutines, and may overtake each other.
func (i *inflow[T]) processed(acked int64, done []stage.Range, idle bool) {
	if acked >= i.core.Acked() {
		_ = i.core.Processed(acked, done, idle)
		i.takeBack()
	}
}

// lentFrame is the memory of a frame whose events are lent, up to position last.
type lentFrame struct {
	last int64
	data mem.Buffer
}

// takeBack takes back the memory of the frames whose events are all processed. What is
// lent to a stage that has failed, or to one that has left it unprocessed, stays its own.
func (i *inflow[T]) takeBack() {
	n := 0
	for n < len(i.lent) && i.lent[n].last <= i.core.Acked() {
		giveBack(i.lent[n].data)
		n++
	}
	i.lent = slices.Delete(i.lent, 0, n)
}

// Cancel implements stage.Upstream.
func (i *inflow[T]) Cancel(c stage.Cancel[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.processed(c.Acked, c.Done, true)
	kind := sluicev1.CancelKind_CANCEL_KIND_FAILED
	if c.Drain {
		kind = sluicev1.CancelKind_CANCEL_KIND_DRAIN
	}
	_ = i.core.Cancel(kind, clip(c.Reason), c.Tried...)
	if i.unwanted.IsZero() {
		i.unwanted = time.Now()
	}
	i.poke()
}

// cancelled is when the stage cancelled, or zero.
func (i *inflow[T]) cancelled() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.unwanted
}

// leave cancels the subscription on behalf of its group.
func (i *inflow[T]) leave(why string) { i.Cancel(stage.Cancel[T]{Drain: true, Reason: why}) }

// drop says that the node was started anew: a session that is broken does not come back.
func (i *inflow[T]) drop() {
	i.mu.Lock()
	i.replaced = true
	i.mu.Unlock()
	select {
	case i.hurry <- struct{}{}:
	default:
	}
}

func (i *inflow[T]) isReplaced() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.replaced
}

// Revoke implements stage.Upstream.
func (i *inflow[T]) Revoke() int64 { return 0 }

// Discard implements stage.Upstream.
func (i *inflow[T]) Discard(int, string) {}

// waits is what it waits for, or nil.
func (i *inflow[T]) waits() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

func (i *inflow[T]) poke() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// set says what an operator sees.
func (i *inflow[T]) set(state string, why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != state {
		i.state, i.since = state, time.Now()
	}
	i.why = why
}

// give tells the stage how the subscription has ended, once.
func (i *inflow[T]) give(e stage.Ending) {
	i.mu.Lock()
	given := i.given
	i.given = true
	i.mu.Unlock()
	if !given {
		i.to.Ended(e)
		i.g.ended(i.at.id(), i.session, e) // behind the end of the member, for the stage too
	}
}

// row is what an operator sees.
func (i *inflow[T]) row() *sluicev1.SubscriptionInfo {
	i.mu.Lock()
	defer i.mu.Unlock()
	state := i.state
	_, _, ended := i.core.Ended()
	switch {
	case state != "open":
	case ended || i.given || !i.until.IsZero():
		state = "draining"
	case i.core.Received() > i.core.Acked():
		state = "in-flight"
	case i.core.Granted() == i.core.Received():
		state = "no-demand"
	default:
		state = "no-events"
	}
	r := &sluicev1.SubscriptionInfo{
		Outlet: i.port.Name(), ProducerNode: i.at.node, ConsumerNode: i.terms.Node, ConsumerStage: i.terms.Stage,
		Side:  sluicev1.SubscriptionSide_SUBSCRIPTION_SIDE_CONSUMER,
		State: state, MaxDemand: i.terms.MaxDemand, MinDemand: i.terms.MinDemand,
		Granted: i.core.Granted(), Received: i.core.Received(), Acked: i.core.Acked(),
		Age: durationpb.New(time.Since(i.since)), Incarnation: i.n.incarnation, Session: i.session,
		Partition: i.about.GetSubscriber().Partition,
	}
	if i.why != nil {
		r.Reason = i.why.Error()
	}
	return r
}

func (i *inflow[T]) peer() string { return i.at.address }
