package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// late is an outlet with a delivery on its way when its subscriber leaves: it arrives
// as soon as the stage is told of that.
type late struct {
	to     stage.Receiver[int]
	events []int
	rest   []stage.Returned[int]
	over   chan struct{}
}

func (l *late) OutletName() string    { return "late" }
func (l *late) Done() <-chan struct{} { return l.over }

func (l *late) Attach(_ stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	l.to = r
	return l, nil
}

func (l *late) Ask(int64, int64, ...stage.Range) error { return nil }
func (l *late) Ack(int64, ...stage.Range) error        { return nil }
func (l *late) Revoke() int64                          { return 0 }
func (l *late) Discard(int, string)                    {}

func (l *late) Cancel(c stage.Cancel[int]) {
	if l.events != nil {
		l.to.Deliver(stage.Batch[int]{Events: l.events})
		l.to.Ended(stage.Ending{Reason: stage.Cancelled})
		l.events = nil
	}
	if !c.Drain {
		l.rest = append(l.rest, c.Rest...)
	}
}

// However a session ends, a delivery that is on its way then is given back too.
func TestDeliveryOnItsWayIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *published[int], held session, s *stream){
		"failed": func(_ *published[int], held session, s *stream) {
			require.NoError(t, held.frame(s, cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0)))
			require.NoError(t, held.frame(s, cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0)), "again")
		},
		"a rule": func(_ *published[int], held session, s *stream) {
			held.violated(s, wire.RuleAskNotPositive)
		},
		"replaced":        func(p *published[int], held session, s *stream) { open(t, p, 2) },
		"the node is cut": func(p *published[int], held session, s *stream) { p.close() },
		"the window": func(p *published[int], held session, s *stream) {
			held.(*served[int]).window = time.Millisecond
			held.broken(s)
			require.Eventually(t, func() bool { return len(p.sessions()) == 0 }, patience, time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &late{events: []int{4, 5}, over: make(chan struct{})}
			p := &published[int]{n: testNode("a", Config{}), port: ints, outlet: l, book: map[subscriber]*entry[int]{}}
			held, s := open(t, p, 1)
			next := sends(t, held, s)
			require.NotNil(t, next(false).GetOpened())
			l.to.Deliver(stage.Batch[int]{Events: []int{1, 2}})
			require.Len(t, next(false).GetBatch().GetEvents(), 2)
			l.to.Deliver(stage.Batch[int]{Events: []int{3}})
			end(p, held, s)
			var back []int
			for _, r := range l.rest {
				back = append(back, r.Event)
			}
			require.Equal(t, []int{1, 2, 3, 4, 5}, back, "each once, and in order")
		})
	}
}

// open opens a session of a subscriber.
func open(t *testing.T, p *published[int], number uint64) (session, *stream) {
	t.Helper()
	o := (&rawClient{stage: "stage"}).about()
	o.Session, o.Granted = number, 10
	_, opening, err := wire.ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
	require.NoError(t, err)
	s := newStream(o, wire.DefaultHeartbeat, "", "somebody")
	held, err := p.open(o, opening, s)
	require.NoError(t, err)
	return held, s
}

// The send loop of a stream that was replaced may be in the middle of encoding: what it
// has in hand is void, and is sent by the new one.
func TestReplacedWhileEncoding(t *testing.T) {
	t.Parallel()
	l := &late{over: make(chan struct{})}
	codec := &pausing{Codec: ints.Codec(), entered: make(chan struct{}), leave: make(chan struct{})}
	p := &published[int]{n: testNode("a", Config{}), port: wire.New[int]("numbers", codec), outlet: l, book: map[subscriber]*entry[int]{}}
	held, s := open(t, p, 1)
	next := sends(t, held, s)
	require.NotNil(t, next(false).GetOpened())
	l.to.Deliver(stage.Batch[int]{Events: []int{1, 2, 3}})
	old := make(chan *sluicev1.ProducerFrame)
	go func() { old <- next(false) }()
	<-codec.entered
	// A second stream takes over, while the first encodes; and the stage is not held up.
	o := (&rawClient{stage: "stage"}).about()
	o.Granted, o.Attempt = 10, 2
	_, opening, err := wire.ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
	require.NoError(t, err)
	other := newStream(o, wire.DefaultHeartbeat, "", "somebody")
	held, err = p.open(o, opening, other)
	require.NoError(t, err)
	l.to.Deliver(stage.Batch[int]{Events: []int{4}})
	close(codec.leave)
	require.Nil(t, <-old)
	require.ErrorIs(t, s.cause, errReplaced)
	// What comes of the old stream is void: frames, its end, and the notice that it broke.
	require.NoError(t, held.frame(s, ackFrame(77)))
	require.NoError(t, held.halfClosed(s))
	held.broken(s)
	held.violated(s, wire.RuleAskNotPositive)
	require.False(t, held.(*served[int]).detached())
	require.Len(t, p.sessions(), 1)
	next = sends(t, held, other)
	require.NotNil(t, next(false).GetOpened())
	require.EqualValues(t, 1, next(false).GetBatch().GetFirst())
	require.EqualValues(t, 4, next(false).GetBatch().GetFirst())
	require.Nil(t, next(false))
}

type pausing struct {
	wire.Codec[int]
	entered, leave chan struct{}
}

func (p *pausing) Append(dst []byte, event int) ([]byte, error) {
	select {
	case p.entered <- struct{}{}:
		<-p.leave
	case <-p.leave:
	}
	return p.Codec.Append(dst, event)
}

// An Open that goes on with a session and cannot be right ends it: its old stream may
// well be alive, and would be for ever.
func TestResumeThatCannotBeRight(t *testing.T) {
	t.Parallel()
	l := &late{over: make(chan struct{})}
	p := &published[int]{n: testNode("a", Config{}), port: ints, outlet: l, book: map[subscriber]*entry[int]{}}
	held, s := open(t, p, 1)
	next := sends(t, held, s)
	require.NotNil(t, next(false).GetOpened())
	l.to.Deliver(stage.Batch[int]{Events: []int{1, 2}})
	require.Len(t, next(false).GetBatch().GetEvents(), 2)
	o := (&rawClient{stage: "stage"}).about()
	o.Attempt, o.Known, o.Granted, o.Received = 2, true, 10, 5
	_, opening, err := wire.ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
	require.NoError(t, err)
	_, err = p.open(o, opening, newStream(o, wire.DefaultHeartbeat, "", "somebody"))
	require.ErrorIs(t, err, wire.RuleReceivedBeyondSent)
	require.Empty(t, p.sessions())
	require.ErrorIs(t, s.cause, wire.RuleReceivedBeyondSent)
	require.Len(t, l.rest, 2, "what it had is given back")
}

// An Ask that crosses End asks for nothing, and what it acknowledges counts: it may be
// the last word.
func TestAskThatCrossesEnd(t *testing.T) {
	t.Parallel()
	i := newInflow(&following[int]{n: testNode("a", Config{}), port: ints}, publisher{})
	require.NoError(t, i.Ask(10, 0))
	i.core.Open()
	require.NoError(t, i.core.Opened(1, 10, 1))
	_, err := i.core.Batch(1, 3)
	require.NoError(t, err)
	require.NoError(t, i.core.End(3, sluicev1.EndReason_END_REASON_COMPLETED, ""))
	i.given = true
	require.NoError(t, i.Ask(3, 3))
	f, halfClose := i.core.Next()
	require.EqualValues(t, 3, f.GetAck().GetAcked())
	require.False(t, halfClose)
	_, halfClose = i.core.Next()
	require.True(t, halfClose)
}

// sends is what a session sends on a stream, as messages.
func sends(t *testing.T, held session, on *stream) func(idle bool) *sluicev1.ProducerFrame {
	next := held.sender(on)
	return func(idle bool) *sluicev1.ProducerFrame {
		m, err := decoded(next(idle))
		require.NoError(t, err)
		return m
	}
}
