package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// rawClient is a consumer that does what it likes.
type rawClient struct {
	t     *testing.T
	stage string
	conn  *grpc.ClientConn
	call  sluicev1.SubscriptionService_SubscribeClient
	gone  context.CancelFunc
}

func dialRaw(t *testing.T, address string) *rawClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrame)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{t: t, conn: conn, stage: "stage"}
	c.dial()
	return c
}

// dial begins another stream.
func (c *rawClient) dial() {
	c.t.Helper()
	if c.gone != nil {
		c.gone()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	c.t.Cleanup(cancel)
	call, err := sluicev1.NewSubscriptionServiceClient(c.conn).Subscribe(ctx)
	require.NoError(c.t, err)
	c.call, c.gone = call, cancel
}

// about is an Open that a node accepts.
func (c *rawClient) about() *sluicev1.Open {
	return &sluicev1.Open{
		Protocol: 1, Outlet: "numbers",
		Subscriber:  &sluicev1.Subscriber{Node: "raw", Stage: c.stage},
		Incarnation: 1, Session: 1, Attempt: 1,
		EventType: "int", Codec: "json",
		Terms:        &sluicev1.Terms{MaxDemand: 100, MinDemand: 75, Delivery: sluicev1.Delivery_DELIVERY_AT_LEAST_ONCE},
		ResumeWindow: durationpb.New(100 * time.Millisecond), MaxFrameBytes: maxFrame,
	}
}

func (c *rawClient) open(change func(o *sluicev1.Open)) {
	c.t.Helper()
	o := c.about()
	if change != nil {
		change(o)
	}
	c.send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
}

func askFrame(n, acked int64) *sluicev1.SubscriberFrame {
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ask{Ask: &sluicev1.Ask{N: n, Acked: acked}}}
}

func ackFrame(acked int64) *sluicev1.SubscriberFrame {
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ack{Ack: &sluicev1.Ack{Acked: acked}}}
}

// doneFrame acknowledges ranges, given by their bounds.
func doneFrame(acked int64, bounds ...int64) *sluicev1.SubscriberFrame {
	a := &sluicev1.Ack{Acked: acked}
	for i := 0; i < len(bounds); i += 2 {
		a.Done = append(a.Done, &sluicev1.Range{First: bounds[i], Last: bounds[i+1]})
	}
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ack{Ack: a}}
}

func cancelFrame(kind sluicev1.CancelKind, acked int64) *sluicev1.SubscriberFrame {
	return &sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Cancel{Cancel: &sluicev1.Cancel{Kind: kind, Acked: acked}}}
}

func (c *rawClient) ask(n int64) { c.t.Helper(); c.send(askFrame(n, 0)) }

func (c *rawClient) send(f *sluicev1.SubscriberFrame) {
	c.t.Helper()
	if err := c.call.Send(f); err != nil && err != io.EOF {
		require.NoError(c.t, err)
	}
}

// recv receives the next frame. Two may come at any time, and are left out: that the node
// is about to leave, which it says as soon as its last source has ended, and a sign of
// life.
func (c *rawClient) recv() *sluicev1.ProducerFrame {
	c.t.Helper()
	for {
		f := c.any()
		if f.GetDraining() == nil && f.GetIdle() == nil {
			return f
		}
	}
}

// any receives the next frame, whatever it is.
func (c *rawClient) any() *sluicev1.ProducerFrame {
	c.t.Helper()
	f, err := c.call.Recv()
	require.NoError(c.t, err)
	return f
}

// events receives n events, and returns their frames.
func (c *rawClient) events(n int) (batches []*sluicev1.Batch) {
	c.t.Helper()
	for n > 0 {
		b := c.recv().GetBatch()
		require.NotNil(c.t, b)
		n -= len(b.GetEvents())
		batches = append(batches, b)
	}
	require.Zero(c.t, n, "more events than were waited for")
	return batches
}

// end is how the stream ends.
func (c *rawClient) end() error {
	for {
		if _, err := c.call.Recv(); err != nil {
			return err
		}
	}
}

// refused checks that the stream ends by a rule.
func (c *rawClient) refused(rule wire.Rule) {
	c.t.Helper()
	err := c.end()
	e, ok := wire.FromStatus(err)
	require.True(c.t, ok, "%v", err)
	require.Equal(c.t, rule, e.Rule, "%v", err)
	require.NotZero(c.t, e.Epoch)
	require.NotEmpty(c.t, e.What)
}

// bystander is a subscription that must flow on whatever others do.
func bystander(t *testing.T, a *Node) (flows func()) {
	t.Helper()
	n := testNode("bystander", Config{Join: join(a)})
	var got record
	sink := got.sink("sink")
	stage.Connect(Outlet(n, wire.JSON[int]("other")), sink)
	start(t, n, sink)
	return func() {
		t.Helper()
		before := got.len()
		eventually(t, "the other subscription flows", func() bool { return got.len() > before+1000 })
		seen := got.all()
		require.NoError(t, counted(seen, len(seen)))
	}
}

// Each rule that a consumer can break ends its own subscription, by the rule's name,
// and nothing else. What it had is given back.
func TestConsumersThatBreakRules(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := numbers(1 << 30)
	Publish(a, ints, source)
	other := endless()
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, source, other)
	flows := bystander(t, a)
	flows()

	type step = func(c *rawClient)
	opened := func(c *rawClient) { c.open(nil); c.recv() }
	given := func(c *rawClient) { opened(c); c.ask(10); c.events(10) }
	for name, test := range map[string]struct {
		rule wire.Rule
		do   step
	}{
		"ask before open":   {wire.RuleFirstFrameNotOpen, func(c *rawClient) { c.ask(1) }},
		"nothing at all":    {wire.RuleFirstFrameNotOpen, func(c *rawClient) { _ = c.call.CloseSend() }},
		"empty first frame": {wire.RuleEmptyFrame, func(c *rawClient) { c.send(&sluicev1.SubscriberFrame{}) }},
		"empty frame":       {wire.RuleEmptyFrame, func(c *rawClient) { opened(c); c.send(&sluicev1.SubscriberFrame{}) }},
		"open twice":        {wire.RuleOpenTwice, func(c *rawClient) { opened(c); c.open(nil) }},
		"protocol":          {wire.RuleUnsupportedProtocol, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Protocol = 2 }) }},
		"unknown outlet":    {wire.RuleUnknownOutlet, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Outlet = "nowhere" }) }},
		"no name":           {wire.RuleSubscriberInvalid, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Subscriber = nil }) }},
		"a name without end": {wire.RuleSubscriberInvalid, func(c *rawClient) {
			c.open(func(o *sluicev1.Open) { o.Subscriber.Stage = string(make([]byte, 1<<10)) })
		}},
		"type":                   {wire.RuleTypeMismatch, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.EventType = "string" }) }},
		"codec":                  {wire.RuleCodecMismatch, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Codec = "proto" }) }},
		"frames too small":       {wire.RuleUnsupportedTerms, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.MaxFrameBytes = 100 }) }},
		"partition":              {wire.RuleUnsupportedTerms, func(c *rawClient) { c.open(func(o *sluicev1.Open) { p := int32(1); o.Subscriber.Partition = &p }) }},
		"selector":               {wire.RuleUnsupportedTerms, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Selector = "x" }) }},
		"no incarnation":         {wire.RuleBadFrame, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Incarnation = 0 }) }},
		"a session from nowhere": {wire.RuleUnknownSession, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Known = true }) }},
		"ask 0":                  {wire.RuleAskNotPositive, func(c *rawClient) { opened(c); c.ask(0) }},
		"ask -1":                 {wire.RuleAskNotPositive, func(c *rawClient) { opened(c); c.ask(-1) }},
		"ack beyond sent":        {wire.RuleAckBeyondSent, func(c *rawClient) { given(c); c.send(ackFrame(11)) }},
		"ack goes back":          {wire.RuleAckGoesBack, func(c *rawClient) { given(c); c.send(ackFrame(5)); c.send(ackFrame(4)) }},
		"negative ack":           {wire.RuleBadFrame, func(c *rawClient) { given(c); c.send(ackFrame(-1)) }},
		"done ranges": {wire.RuleDoneRanges, func(c *rawClient) {
			given(c)
			c.send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ack{Ack: &sluicev1.Ack{Done: []*sluicev1.Range{{First: 5, Last: 3}}}}})
		}},
		"cancel how":      {wire.RuleCancelKind, func(c *rawClient) { given(c); c.send(cancelFrame(0, 0)) }},
		"leaving unacked": {wire.RuleEndUnacked, func(c *rawClient) { given(c); _ = c.call.CloseSend() }},
		"received beyond sent": {wire.RuleReceivedBeyondSent, func(c *rawClient) {
			given(c)
			c.dial()
			c.open(func(o *sluicev1.Open) { o.Attempt, o.Known, o.Granted, o.Received = 2, true, 20, 20 })
		}},
		"granted goes back": {wire.RuleGrantedGoesBack, func(c *rawClient) {
			given(c)
			c.dial()
			c.open(func(o *sluicev1.Open) { o.Attempt, o.Known, o.Granted, o.Received = 2, true, 5, 5 })
		}},
		"stale": {wire.RuleStaleOpen, func(c *rawClient) {
			given(c)
			before := c.call
			c.gone = nil
			c.dial()
			c.open(nil)
			t.Cleanup(func() { _ = before.CloseSend() })
		}},
		"absurd ask":     {wire.RuleAskTooLarge, func(c *rawClient) { opened(c); c.ask(1 << 62) }},
		"absurd asks":    {wire.RuleAskTooLarge, func(c *rawClient) { given(c); c.ask(9_999_990); c.ask(1) }},
		"almost endless": {wire.RuleAskTooLarge, func(c *rawClient) { opened(c); c.ask(credit.Unbounded - 1) }},
		"absurd open":    {wire.RuleAskTooLarge, func(c *rawClient) { c.open(func(o *sluicev1.Open) { o.Granted = 1 << 40 }) }},
		"an open too large": {wire.RuleFrameTooLarge, func(c *rawClient) {
			c.open(func(o *sluicev1.Open) { o.EventType = string(make([]byte, maxAsked)) })
		}},
		"done twice":       {wire.RuleDoneRanges, func(c *rawClient) { given(c); c.send(doneFrame(0, 3, 5, 5, 6)) }},
		"done unordered":   {wire.RuleDoneRanges, func(c *rawClient) { given(c); c.send(doneFrame(0, 7, 8, 3, 4)) }},
		"done below acked": {wire.RuleDoneRanges, func(c *rawClient) { given(c); c.send(doneFrame(5, 3, 3)) }},
		"done beyond sent": {wire.RuleDoneRanges, func(c *rawClient) { given(c); c.send(doneFrame(0, 9, 11)) }},
		"done without end": {wire.RuleFrameTooLarge, func(c *rawClient) { given(c); c.send(doneFrame(0, make([]int64, 300_000)...)) }},
		"closing at once":  {wire.RuleEndUnacked, func(c *rawClient) { c.open(nil); _ = c.call.CloseSend() }},
		"a frame too large": {wire.RuleFrameTooLarge, func(c *rawClient) {
			opened(c)
			c.send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Cancel{Cancel: &sluicev1.Cancel{Kind: sluicev1.CancelKind_CANCEL_KIND_DRAIN, Reason: string(make([]byte, maxAsked))}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, a.Address())
			c.stage = name // what is remembered of one is not to concern the next
			test.do(c)
			c.refused(test.rule)
		})
	}
	flows()
	p := a.published["numbers"].(*published[int])
	eventually(t, "nothing is held for any of them", func() bool { return len(p.sessions()) == 0 })
}

// What a consumer had that breaks a rule comes back before anything new, and is marked.
func TestWhatABreakerHadComesBack(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := numbers(1 << 30)
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(nil)
	c.recv()
	c.ask(10)
	c.events(10)
	c.ask(0)
	c.refused(wire.RuleAskNotPositive)

	c = dialRaw(t, a.Address())
	c.stage = "next"
	c.open(nil)
	c.recv()
	c.ask(11)
	var events, attempts []string
	for _, b := range c.events(11) {
		marks := b.GetAttempts()
		for i, e := range b.GetEvents() {
			tried := int32(0)
			if len(marks) > 0 {
				tried = marks[i]
			}
			events, attempts = append(events, string(e)), append(attempts, fmt.Sprint(tried))
		}
	}
	require.Equal(t, strings.Fields("0 1 2 3 4 5 6 7 8 9 10"), events)
	require.Equal(t, strings.Fields("1 1 1 1 1 1 1 1 1 1 0"), attempts)
}

// A producer sends what was asked for, and no event more.
func TestNoMoreThanAsked(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(nil)
	require.NotNil(t, c.recv().GetOpened())
	c.ask(7)
	c.events(7)
	c.send(askFrame(1, 7))
	c.events(1)
	frames := make(chan *sluicev1.ProducerFrame)
	go func() {
		f, _ := c.call.Recv()
		frames <- f
	}()
	select {
	case f := <-frames:
		require.Fail(t, "more than was asked", "%v", f)
	case <-time.After(50 * time.Millisecond):
	}
	c.send(cancelFrame(sluicev1.CancelKind_CANCEL_KIND_DRAIN, 8))
	require.EqualValues(t, 8, (<-frames).GetEnd().GetLast())
	require.NoError(t, c.call.CloseSend())
	require.Equal(t, io.EOF, c.end())
}

// What a consumer did not process comes to the next one, marked with its attempts, and
// what was tried comes alone.
func TestRedeliveredIsMarked(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	source, push := pushed()
	Publish(a, ints, source)
	start(t, a, source)
	c := dialRaw(t, a.Address())
	c.open(func(o *sluicev1.Open) { o.Terms.MaxDemand, o.Terms.MinDemand = 10, 8 })
	c.recv()
	c.ask(10)
	push(0, 1, 2, 3, 4)
	c.events(5)
	c.send(ackFrame(1))
	failed := cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 1)
	failed.GetCancel().Tried = []*sluicev1.Range{{First: 3, Last: 3}}
	c.send(failed)
	for c.recv().GetEnd() == nil {
	}
	require.NoError(t, c.call.CloseSend())
	require.Equal(t, io.EOF, c.end())

	d := dialRaw(t, a.Address())
	d.open(func(o *sluicev1.Open) { o.Subscriber.Stage = "other" })
	d.recv()
	d.ask(10)
	var events []string
	var attempts []int32
	for len(events) < 4 {
		b := d.recv().GetBatch()
		require.Len(t, b.GetAttempts(), len(b.GetEvents()), "each is marked")
		if b.GetAttempts()[0] > 0 {
			require.Len(t, b.GetEvents(), 1, "what was tried comes alone")
		}
		for i, e := range b.GetEvents() {
			events = append(events, string(e))
			attempts = append(attempts, b.GetAttempts()[i])
		}
	}
	require.Equal(t, []string{"1", "2", "3", "4"}, events)
	require.Equal(t, []int32{0, 1, 0, 0}, attempts, "its consumer knows best")
}

// A subscriber without a name that it keeps may not make a node remember for ever.
func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	a.tuning.slack = time.Hour // nobody is forgotten for the time
	source := endless()
	Publish(a, ints, source)
	start(t, a, source)
	p := a.published["numbers"].(*published[int])
	for i := range uint64(2 * maxRemembered) {
		o := (&rawClient{}).about()
		o.Known, o.Session = true, i+1
		o.Subscriber.Stage = "stage " + time.Duration(i).String()
		_, opening, err := wire.ReadOpen(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}})
		require.NoError(t, err)
		_, err = p.open(o, opening, newStream(o, a.tuning.beat, "", "somebody"))
		require.ErrorIs(t, err, wire.RuleUnknownSession)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.LessOrEqual(t, len(p.book), maxRemembered*5/4)
}

// liar is a producer that does what it likes: it is found through the gossip of a node
// and serves by itself.
type liar struct {
	sluicev1.UnimplementedSubscriptionServiceServer
	sluicev1.UnimplementedCatalogServiceServer
	n     *Node
	serve func(s sluicev1.SubscriptionService_SubscribeServer) error
	mu    sync.Mutex
	heard []*sluicev1.SubscriberFrame
}

func (l *liar) GetCatalog(context.Context, *sluicev1.GetCatalogRequest) (*sluicev1.GetCatalogResponse, error) {
	return &sluicev1.GetCatalogResponse{Catalog: &sluicev1.Catalog{Node: l.n.Name(), Incarnation: l.n.incarnation, Version: 1,
		Outlets: []*sluicev1.OfferedOutlet{{Name: "numbers", EventType: "int", Codec: "json", Dispatcher: "demand"}}}}, nil
}

func (l *liar) Subscribe(s sluicev1.SubscriptionService_SubscribeServer) error { return l.serve(s) }

// recv receives the next frame of the consumer.
func (l *liar) recv(s sluicev1.SubscriptionService_SubscribeServer) (*sluicev1.SubscriberFrame, error) {
	f, err := s.Recv()
	if err == nil {
		l.mu.Lock()
		l.heard = append(l.heard, f)
		l.mu.Unlock()
	}
	return f, err
}

// cancelled reports whether the consumer has said that it failed.
func (l *liar) cancelled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.heard {
		if f.GetCancel().GetKind() == sluicev1.CancelKind_CANCEL_KIND_FAILED {
			return true
		}
	}
	return false
}

func startLiar(t *testing.T, c Config, serve func(l *liar, s sluicev1.SubscriptionService_SubscribeServer) error) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.Advertise = listener.Addr().String()
	l := &liar{n: testNode("liar", c)}
	l.serve = func(s sluicev1.SubscriptionService_SubscribeServer) error { return serve(l, s) }
	server := grpc.NewServer()
	sluicev1.RegisterSubscriptionServiceServer(server, l)
	sluicev1.RegisterCatalogServiceServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	l.n.version = 1
	start(t, l.n)
	return l
}

func opened(next int64) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Opened{Opened: &sluicev1.Opened{
		Epoch: 1, Next: next, MaxUnackedEvents: 1, MaxUnackedBytes: 1, MaxFrameBytes: 1,
	}}}
}

func batch(first int64, n int) *sluicev1.ProducerFrame {
	b := &sluicev1.Batch{First: first}
	for i := range n {
		b.Events = append(b.Events, []byte{'0' + byte((int(first)+i-1)%10)})
	}
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Batch{Batch: b}}
}

func end(last int64) *sluicev1.ProducerFrame {
	return &sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_End{End: &sluicev1.End{Last: last, Reason: sluicev1.EndReason_END_REASON_COMPLETED}}}
}

// Each rule that a producer can break ends the subscription by the rule's name; the
// producer is told, and other subscriptions of the node flow on.
func TestProducersThatBreakRules(t *testing.T) {
	t.Parallel()
	a := testNode("a", Config{})
	other := endless()
	Publish(a, wire.JSON[int]("other"), other)
	start(t, a, other)
	for name, test := range map[string]struct {
		rule   wire.Rule
		frames []*sluicev1.ProducerFrame
	}{
		"batch before opened": {wire.RuleNotOpened, []*sluicev1.ProducerFrame{batch(1, 1)}},
		"more than asked":     {wire.RuleCreditExceeded, []*sluicev1.ProducerFrame{opened(1), batch(1, 11)}},
		"more in two":         {wire.RuleCreditExceeded, []*sluicev1.ProducerFrame{opened(1), batch(1, 5), batch(6, 500)}},
		"a gap":               {wire.RulePositionGap, []*sluicev1.ProducerFrame{opened(1), batch(2, 1)}},
		"again":               {wire.RulePositionGap, []*sluicev1.ProducerFrame{opened(1), batch(1, 2), batch(1, 2)}},
		"opened elsewhere":    {wire.RulePositionGap, []*sluicev1.ProducerFrame{opened(5)}},
		"opened twice":        {wire.RuleOpenTwice, []*sluicev1.ProducerFrame{opened(1), opened(1)}},
		"an empty batch":      {wire.RuleEmptyBatch, []*sluicev1.ProducerFrame{opened(1), batch(1, 0)}},
		"an empty frame":      {wire.RuleEmptyFrame, []*sluicev1.ProducerFrame{opened(1), {}}},
		"after end":           {wire.RuleAfterEnd, []*sluicev1.ProducerFrame{opened(1), end(0), batch(1, 1)}},
		"ended twice":         {wire.RuleAfterEnd, []*sluicev1.ProducerFrame{opened(1), end(0), end(0)}},
		"a frame too large":   {wire.RuleFrameTooLarge, []*sluicev1.ProducerFrame{opened(1), {Frame: &sluicev1.ProducerFrame_End{End: &sluicev1.End{Message: string(make([]byte, maxFrame))}}}}},
		"end that lies":       {wire.RuleEndMismatch, []*sluicev1.ProducerFrame{opened(1), batch(1, 1), end(2)}},
		"not to be read":      {wire.RuleDecode, []*sluicev1.ProducerFrame{opened(1), {Frame: &sluicev1.ProducerFrame_Batch{Batch: &sluicev1.Batch{First: 1, Events: [][]byte{[]byte("x")}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLiar(t, Config{Join: join(a)}, func(l *liar, s sluicev1.SubscriptionService_SubscribeServer) error {
				if _, err := l.recv(s); err != nil {
					return err
				}
				for _, f := range test.frames {
					if err := s.Send(f); err != nil {
						return err
					}
				}
				for {
					f, err := l.recv(s)
					if err != nil {
						return err
					}
					if f.GetCancel() != nil {
						_ = s.Send(end(0))
					}
				}
			})
			b := testNode("b", Config{Join: join(a)})
			var got, more record
			sink, bystander := got.sink("sink"), more.sink("bystander")
			stage.Connect(Outlet(b, ints), sink, stage.MaxDemand(10))
			stage.Connect(Outlet(b, wire.JSON[int]("other")), bystander)
			start(t, b, sink, bystander)
			if test.rule == wire.RuleAfterEnd {
				// The stage has had the End that it was given, and no event after it.
				eventually(t, "the sink ends well", func() bool { return sink.Inspect().State == "ended" })
				require.Zero(t, got.len())
				return
			}
			eventually(t, "the sink ends", func() bool { return sink.Inspect().State == "failed" })
			err := sink.Inspect().Err
			require.ErrorIs(t, err, test.rule)
			require.ErrorContains(t, err, "numbers at liar")
			require.LessOrEqual(t, got.len(), 10)
			if test.rule != wire.RuleFrameTooLarge { // gRPC has ended the stream by itself
				eventually(t, "the producer is told", l.cancelled)
			}
			before := more.len()
			eventually(t, "the other one flows", func() bool { return more.len() > before+100 })
		})
	}
}
