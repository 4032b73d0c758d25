package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicenet/sluice/internal/registry"
	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Publish offers outlet on the network, under the name of port. A name that cannot be
// used, or is used already, is said by the node's Start, and by the log of one that
// runs already.
func Publish[T any](n *Node, port wire.Port[T], outlet stage.Outlet[T]) {
	n.mu.Lock()
	name := port.Name()
	err := port.Check()
	if _, ok := n.published[name]; ok && err == nil {
		err = fmt.Errorf("%w: %q", ErrDuplicateOutlet, name)
	}
	if err != nil {
		err = fmt.Errorf("node %q: publish: %w", n.config.Name, err)
		n.problems = append(n.problems, err)
	} else {
		n.published[name] = &published[T]{n: n, port: port, outlet: outlet, book: map[subscriber]*entry[T]{}}
		n.version++
	}
	n.mu.Unlock()
	runs := n.Address() != ""
	switch {
	case runs && err != nil:
		n.log.Error("outlet not published", "why", err)
	case runs:
		n.cluster.announce()
	}
}

// publication is a published outlet, whatever the type of its events.
type publication interface {
	offer() registry.Outlet
	// open decides about an Open, and returns the session that it begins or goes on
	// with, or a refusal.
	open(o *sluicev1.Open, opening wire.Opening, s *stream) (session, error)
	rows() []*sluicev1.SubscriptionInfo
	// hurry tells the subscribers that the node is about to leave, and shortens the windows
	// of the sessions whose streams are broken.
	hurry()
	// wait returns when no session is left, or ctx ends.
	wait(ctx context.Context)
	// close ends the sessions that are left: what they hold goes back to the stage.
	close()
	// tap calls show with each batch that the outlet emits, until stop is called: how many
	// events it has, and what encodes one of them, now or later. show is a part of the
	// flow, and must return at once.
	tap(show func(n int, encode func(i int) func() []byte)) (stop func(), err error)
	done() <-chan struct{}
	// noticeUnrun warns, once, when nobody runs the stage.
	noticeUnrun()
}

// published is an outlet on the network, and the sessions of its subscribers.
type published[T any] struct {
	n      *Node
	port   wire.Port[T]
	outlet stage.Outlet[T]

	size atomic.Int64 // of an event, on the average of the last frame; 0 before that
	run  unrun

	mu   sync.Mutex
	book map[subscriber]*entry[T]
	held int           // sessions
	left chan struct{} // closed when there is none
	// purged is when somebody looked for triples to forget, and crowd the size of the
	// book at which that is done again.
	purged time.Time
	crowd  int
}

// subscriber is who subscribes, the same over every restart of its node.
type subscriber struct {
	node, stage string
	partition   int
}

// entry is what is known of a subscriber: the last Open of it that was accepted, and
// its session while there is one. The first outlives the second, so that a late
// Open begins no ghost.
type entry[T any] struct {
	last wire.Triple
	// identity is who has opened it, and the only one that may go on with it.
	identity string
	held     *served[T]
	forget   time.Time
}

func (p *published[T]) done() <-chan struct{} { return p.outlet.Done() }

func (p *published[T]) offer() registry.Outlet {
	o := registry.Outlet{Name: p.port.Name(), EventType: p.port.EventType(), Codec: p.port.Codec().Name()}
	select {
	case <-p.outlet.Done():
		o.Ended = true
	default:
	}
	if i, ok := p.outlet.(stage.Inspector); ok {
		info := i.Inspect()
		o.Dispatcher = info.Dispatcher
		if info.Dispatcher == "partition" {
			o.Partitions = info.Lanes
		}
	}
	return o
}

// check compares the two ports.
func (p *published[T]) check(o *sluicev1.Open) error {
	name := p.port.Name()
	if got, want := o.GetEventType(), p.port.EventType(); got != want {
		return &wire.Error{Rule: wire.RuleTypeMismatch, What: fmt.Sprintf("outlet %q carries %s, and the subscriber wants %s", name, want, got),
			Hint: "use the same port at both ends"}
	}
	if got, want := o.GetCodec(), p.port.Codec().Name(); got != want {
		return &wire.Error{Rule: wire.RuleCodecMismatch, What: fmt.Sprintf("outlet %q is written in %s, and the subscriber reads %s", name, want, got),
			Hint: "use the same port at both ends"}
	}
	return nil
}

func (p *published[T]) open(o *sluicev1.Open, opening wire.Opening, s *stream) (session, error) {
	if err := p.check(o); err != nil {
		return nil, err
	}
	held, then, err := p.admit(o, opening, s)
	// The stage, and whom it reports to, are not to hold up other subscribers.
	if then != nil {
		then()
	}
	if err != nil {
		return nil, err
	}
	return held, nil
}

// admit decides about an Open. then is what follows, to be done without the lock.
func (p *published[T]) admit(o *sluicev1.Open, opening wire.Opening, s *stream) (held *served[T], then func(), err error) {
	who := subscriberOf(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purge()
	e := p.book[who]
	if e == nil {
		e = &entry[T]{identity: s.identity}
	}
	if e.identity != s.identity {
		return nil, nil, &wire.Error{Rule: wire.RuleOtherIdentity,
			What: fmt.Sprintf("stage %q of node %q has subscribed as %q, and now %q comes in its name", who.stage, who.node, e.identity, s.identity),
			Hint: "nodes of one cluster have names of their own; where the certificate is for somebody else now, wait until the resume window is over"}
	}
	verdict := wire.Judge(e.last, e.held != nil, opening.Triple, opening.Known)
	if verdict == wire.Stale {
		return nil, nil, stale(who, e.last, opening.Triple)
	}
	remember := func() {
		p.book[who] = e
		e.last, e.forget = opening.Triple, time.Now().Add(p.n.window(o))
	}
	if verdict != wire.Fresh {
		remember()
	}
	switch verdict {
	case wire.TakeOver:
		held := e.held
		t, err := held.resume(opening, s)
		if err == nil {
			return held, func() { held.do(t) }, nil
		}
		// There is no going on with what the subscriber has in mind.
		p.leave(e, p.n.window(o))
		return nil, func() { held.expire(err, err.Error()) }, err
	case wire.Replace, wire.Unknown:
		// Before the new one begins: a partition has room for one.
		if held := e.held; held != nil {
			p.leave(e, p.n.window(o))
			held.expire(errReplaced, "its subscriber has opened a new one")
		}
	}
	if verdict != wire.Unknown && p.n.draining.Load() {
		return nil, nil, &wire.Error{Rule: wire.RuleDraining, What: "the node is about to leave"}
	}
	if verdict == wire.Unknown {
		return nil, nil, &wire.Error{Rule: wire.RuleUnknownSession, What: fmt.Sprintf("session %d is not held here", opening.Session)}
	}
	if err := p.n.guests.hold(s.guest); err != nil {
		return nil, nil, err
	}
	held, t, err := newServed(p, who, o, opening, s)
	if err != nil {
		p.n.guests.release(s.guest)
	}
	if errors.Is(err, wire.RulePartitionTaken) && p.kept(who.partition) {
		err = &wire.Error{Rule: wire.RuleBusy, What: fmt.Sprintf("partition %d is kept for a subscriber whose connection broke", who.partition)}
	}
	if err != nil {
		return nil, nil, err
	}
	// One that begins nothing and ends nothing is not remembered: it may be tried again.
	remember()
	e.held = held
	p.held++
	return held, func() { held.do(t) }, nil
}

// stale refuses an Open that is not newer than the last one of its subscriber.
func stale(who subscriber, last, open wire.Triple) error {
	err := &wire.Error{Rule: wire.RuleStaleOpen, What: fmt.Sprintf("stage %q of node %q has opened this subscription anew since", who.stage, who.node),
		Hint: "stages of one node have names of their own, and nodes of one cluster"}
	if open.Incarnation < last.Incarnation {
		err.What = fmt.Sprintf("stage %q of node %q has subscribed from a later start of the node: %d, and this is %d", who.stage, who.node,
			last.Incarnation, open.Incarnation)
		err.Hint = "one of two nodes with one name is to be stopped; where the clock of the machine was set back, the later start is forgotten after its window"
	}
	return err
}

// leave takes the session out of an entry, which is then remembered for a while. The
// lock is held.
func (p *published[T]) leave(e *entry[T], window time.Duration) {
	p.n.guests.release(e.held.guest)
	e.held = nil
	e.forget = time.Now().Add(window)
	p.held--
	if p.held == 0 && p.left != nil {
		close(p.left)
		p.left = nil
	}
}

// kept reports whether a partition is kept for a subscriber that has no stream now.
// The lock is held.
func (p *published[T]) kept(partition int) bool {
	for _, e := range p.book {
		if e.held != nil && e.held.who.partition == partition && e.held.detached() {
			return true
		}
	}
	return false
}

// maxRemembered is about how many subscribers that are gone are remembered: a stranger
// may have any number of names.
const maxRemembered = 4096

// purge forgets the triples whose time is over, and those next to it when they are too
// many. It looks now and then, since it looks at all of them. The lock is held.
func (p *published[T]) purge() {
	now := time.Now()
	if len(p.book) < p.crowd && now.Sub(p.purged) < time.Second {
		return
	}
	var gone []subscriber
	for who, e := range p.book {
		switch {
		case e.held != nil:
		case now.After(e.forget):
			delete(p.book, who)
		default:
			gone = append(gone, who)
		}
	}
	if len(gone) > maxRemembered {
		slices.SortFunc(gone, func(a, b subscriber) int { return p.book[a].forget.Compare(p.book[b].forget) })
		for _, who := range gone[:len(gone)-maxRemembered] {
			delete(p.book, who)
		}
	}
	p.purged, p.crowd = now, len(p.book)+maxRemembered/8
}

// over books that a session has ended.
func (p *published[T]) over(s *served[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.book[s.who]; e != nil && e.held == s {
		p.leave(e, s.window)
	}
}

func (p *published[T]) close() {
	for _, s := range p.sessions() {
		s.expire(errStopped, errStopped.Error())
		p.over(s)
	}
}

func (p *published[T]) sessions() []*served[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*served[T]
	for _, e := range p.book {
		if e.held != nil {
			all = append(all, e.held)
		}
	}
	return all
}

func (p *published[T]) hurry() {
	for _, s := range p.sessions() {
		s.hurry()
	}
}

func (p *published[T]) wait(ctx context.Context) {
	for {
		p.mu.Lock()
		if p.held == 0 {
			p.mu.Unlock()
			return
		}
		if p.left == nil {
			p.left = make(chan struct{})
		}
		left := p.left
		p.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return
		}
	}
}

func (p *published[T]) rows() []*sluicev1.SubscriptionInfo {
	var rows []*sluicev1.SubscriptionInfo
	for _, s := range p.sessions() {
		rows = append(rows, s.row())
	}
	return rows
}

func (p *published[T]) tap(show func(n int, encode func(i int) func() []byte)) (stop func(), err error) {
	t, ok := p.outlet.(stage.Tapper[T])
	if !ok {
		return nil, errNoTap
	}
	codec := p.port.Codec()
	// Events may be kept, and encoded later: nobody changes them.
	return t.Tap(func(events []T) {
		show(len(events), func(i int) func() []byte {
			e := events[i]
			return func() []byte { return encodeOne(codec, e) }
		})
	}), nil
}

var errNoTap = errors.New("the outlet cannot be tapped")

func subscriberOf(o *sluicev1.Open) subscriber {
	s := subscriber{node: o.GetSubscriber().GetNode(), stage: o.GetSubscriber().GetStage(), partition: dispatch.NoPartition}
	if o.GetSubscriber().Partition != nil {
		s.partition = int(o.GetSubscriber().GetPartition())
	}
	return s
}

func termsOf(o *sluicev1.Open) stage.Terms {
	t, who := o.GetTerms(), subscriberOf(o)
	return stage.Terms{
		Node: who.node, Stage: who.stage, Partition: who.partition,
		MaxDemand: t.GetMaxDemand(), MinDemand: t.GetMinDemand(), Manual: t.GetManual(),
		AtMostOnce:   t.GetDelivery() == sluicev1.Delivery_DELIVERY_AT_MOST_ONCE,
		ResumeWindow: o.GetResumeWindow().AsDuration(),
	}
}

// window is how long a session is kept whose stream broke. It outlasts the consumer's
// window by more than a break may take to be noticed, which is the silence that its
// stream may keep, so that the consumer is the first to give up. What a stranger asks
// for is bounded.
func (n *Node) window(o *sluicev1.Open) time.Duration {
	w := min(max(o.GetResumeWindow().AsDuration(), 0), maxWindow)
	own := n.tuning.beat
	slack := n.tuning.slack + wire.Silence(wire.Heartbeat(own, o.GetHeartbeat())) - wire.Silence(own)
	return max(w*3/2, w+slack)
}

// maxWindow is the longest resume window that is granted.
const maxWindow = time.Hour

// refusal turns an error of Attach into one that crosses the wire.
func refusal(err error) error {
	rule := wire.RuleUnsupportedTerms
	switch {
	case errors.Is(err, dispatch.ErrNoPartition):
		rule = wire.RulePartitionRequired
	case errors.Is(err, dispatch.ErrPartitionRange):
		rule = wire.RulePartitionRange
	case errors.Is(err, dispatch.ErrPartitionTaken):
		rule = wire.RulePartitionTaken
	case errors.Is(err, stage.ErrEnded):
		rule = wire.RuleEnded
	case errors.Is(err, stage.ErrBusy):
		rule = wire.RuleBusy
	}
	return &wire.Error{Rule: rule, What: err.Error()}
}
