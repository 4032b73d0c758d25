package conform

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/stage/stagetest"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// Both halves of a session in one process, without gRPC and without a node: frames go
// through queues. So what the suite finds here is of the session or of what it says to
// the stages, and of nothing that carries it.
func TestSession(t *testing.T) {
	stagetest.Test(t, func(_ *testing.T, outlet stage.Outlet[int]) stage.Outlet[int] {
		return &joined{outlet: outlet}
	}, stagetest.OnAWire)
}

var port = wire.JSON[int]("numbers")

const (
	maxUnacked = 100_000
	frameRoom  = 256 // a delivery of some size takes several frames
)

// joined is an outlet behind a session.
type joined struct {
	outlet   stage.Outlet[int]
	mu       sync.Mutex
	sessions uint64
}

func (j *joined) OutletName() string    { return j.outlet.OutletName() }
func (j *joined) Done() <-chan struct{} { return nil }

func (j *joined) Attach(terms stage.Terms, to stage.Receiver[int]) (stage.Upstream[int], error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sessions++
	up, down := newPipe[*sluicev1.SubscriberFrame](), newPipe[*sluicev1.ProducerFrame]()
	c := &consuming{core: wire.NewConsumer(1, j.sessions, 0), up: up, to: to}
	up.put(wire.OpenFrame(&sluicev1.Open{}, c.core.Open()))
	p := &producing{news: up, down: down}
	go p.run(j.outlet, terms, up)
	go c.run(down)
	return c, nil
}

// pipe is a queue of frames, in one direction of one stream. It never blocks who puts
// something in. Err is how the stream ends: io.EOF, or the rule that was broken.
type pipe[F any] struct {
	mu     sync.Mutex
	news   sync.Cond
	frames []F
	err    error
	poked  bool
}

func newPipe[F any]() *pipe[F] {
	p := &pipe[F]{}
	p.news.L = &p.mu
	return p
}

func (p *pipe[F]) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.news.Broadcast()
}

func (p *pipe[F]) put(f F)         { p.do(func() { p.frames = append(p.frames, f) }) }
func (p *pipe[F]) close(err error) { p.do(func() { p.err = err }) }
func (p *pipe[F]) poke()           { p.do(func() { p.poked = true }) }

// next waits for a frame, for the end behind the last one, or for being poked.
func (p *pipe[F]) next() (f F, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.frames) == 0 && !p.poked && p.err == nil {
		p.news.Wait()
	}
	if len(p.frames) > 0 {
		f, p.frames = p.frames[0], p.frames[1:]
		return f, true, nil
	}
	if p.poked {
		p.poked = false
		return f, false, nil
	}
	return f, false, p.err
}

// consuming is the consumer's half.
type consuming struct {
	mu    sync.Mutex
	core  *wire.Consumer
	up    *pipe[*sluicev1.SubscriberFrame]
	to    stage.Receiver[int]
	given bool
}

// do changes the session, and sends what follows.
func (c *consuming) do(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f()
	for {
		frame, halfClose := c.core.Next()
		switch {
		case frame != nil:
			c.up.put(frame)
			continue
		case halfClose:
			c.up.close(io.EOF)
		}
		return err
	}
}

func (c *consuming) processed(acked int64, done []stage.Range, idle bool) {
	if acked >= c.core.Acked() {
		_ = c.core.Processed(acked, done, idle)
	}
}

func (c *consuming) Ask(n, acked int64, done ...stage.Range) error {
	return c.do(func() error { c.processed(acked, done, c.given); return c.core.Ask(n) })
}

func (c *consuming) Ack(acked int64, done ...stage.Range) error {
	return c.do(func() error { c.processed(acked, done, true); return nil })
}

func (c *consuming) Cancel(x stage.Cancel[int]) {
	kind := sluicev1.CancelKind_CANCEL_KIND_FAILED
	if x.Drain {
		kind = sluicev1.CancelKind_CANCEL_KIND_DRAIN
	}
	_ = c.do(func() error {
		c.processed(x.Acked, x.Done, true)
		return c.core.Cancel(kind, x.Reason, x.Tried...)
	})
}

func (c *consuming) Revoke() int64       { return 0 }
func (c *consuming) Discard(int, string) {}

func (c *consuming) give(e stage.Ending) {
	c.mu.Lock()
	given := c.given
	c.given = true
	c.mu.Unlock()
	if !given {
		c.to.Ended(e)
	}
}

func (c *consuming) run(down *pipe[*sluicev1.ProducerFrame]) {
	var events []int
	again, attempts := false, 0
	for {
		f, ok, err := down.next()
		switch {
		case ok:
			err = wire.CheckProducerFrame(f)
		case err == io.EOF: //nolint:errorlint // as it is
			return
		}
		if err == nil {
			err = c.do(func() (err error) {
				switch f := f.GetFrame().(type) {
				case *sluicev1.ProducerFrame_Opened:
					err = c.core.Opened(f.Opened.GetEpoch(), f.Opened.GetGranted(), f.Opened.GetNext())
				case *sluicev1.ProducerFrame_Batch:
					var take bool
					take, err = c.core.Batch(f.Batch.GetFirst(), int64(len(f.Batch.GetEvents())))
					if err == nil && take && !c.given {
						events, err = wire.Decode(port.Codec(), f.Batch.GetEvents(), events)
					}
				case *sluicev1.ProducerFrame_End:
					err = c.core.End(f.End.GetLast(), f.End.GetReason(), f.End.GetMessage())
				}
				return err
			})
		}
		if err != nil {
			c.give(stage.Ending{Reason: stage.Refused, Err: err, Drop: true})
			c.up.close(err)
			return
		}
		switch f := f.GetFrame().(type) {
		case *sluicev1.ProducerFrame_Opened:
			c.to.Opened()
		case *sluicev1.ProducerFrame_Batch:
			if a := f.Batch.GetAttempts(); len(a) > 0 {
				again, attempts = true, int(a[0])
			}
			if !f.Batch.GetMore() && len(events) > 0 {
				c.to.Deliver(stage.Batch[int]{Events: events, Redelivered: again, Attempts: attempts})
				events, again, attempts = nil, false, 0
			}
		case *sluicev1.ProducerFrame_End:
			c.give(ending(f.End))
		}
	}
}

var reasons = map[sluicev1.EndReason]stage.Reason{
	sluicev1.EndReason_END_REASON_COMPLETED: stage.Completed,
	sluicev1.EndReason_END_REASON_SHUTDOWN:  stage.Shutdown,
	sluicev1.EndReason_END_REASON_CANCELLED: stage.Cancelled,
	sluicev1.EndReason_END_REASON_FAILED:    stage.Failed,
}

func ending(e *sluicev1.End) stage.Ending {
	end := stage.Ending{Reason: reasons[e.GetReason()]}
	if !end.Reason.Normal() {
		end.Err = errors.New(e.GetMessage())
	}
	return end
}

// producing is the producer's half. Everything happens on one goroutine, except that
// the stage puts events into the queue.
type producing struct {
	news *pipe[*sluicev1.SubscriberFrame] // poked by the stage
	down *pipe[*sluicev1.ProducerFrame]
	core *wire.Producer
	up   stage.Upstream[int]
	kept []stage.Returned[int]

	mu    sync.Mutex
	queue []stage.Batch[int]
	end   *stage.Ending
	quiet bool // what is delivered goes back
}

// byNobody is the upstream of a session whose outlet has ended.
type byNobody struct{ stage.Upstream[int] }

func (byNobody) Ask(int64, int64, ...stage.Range) error { return nil }
func (byNobody) Ack(int64, ...stage.Range) error        { return nil }
func (byNobody) Cancel(stage.Cancel[int])               {}

func (p *producing) Opened() {}

func (p *producing) Deliver(b stage.Batch[int]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.quiet {
		b.Events = slices.Clone(b.Events)
		p.queue = append(p.queue, b)
	}
	p.news.poke()
}

func (p *producing) Ended(e stage.Ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = &e
	p.news.poke()
}

func (p *producing) run(outlet stage.Outlet[int], terms stage.Terms, up *pipe[*sluicev1.SubscriberFrame]) {
	f, _, _ := up.next()
	open := f.GetOpen()
	core, step, err := wire.NewProducer(wire.Opening{
		Triple: wire.Triple{Incarnation: open.GetIncarnation(), Session: open.GetSession(), Attempt: open.GetAttempt()},
	}, maxUnacked, maxUnacked)
	if err == nil {
		p.core = core
		p.up, err = outlet.Attach(terms, p)
		// Who comes late is told how it has ended.
		if over := new(stage.EndedError); errors.As(err, &over) {
			p.up, err = &byNobody{}, nil
			p.Ended(over.Ending)
		}
	}
	if err != nil {
		p.down.close(err)
		return
	}
	p.down.put(wire.OpenedFrame(1, core, wire.Limits{UnackedEvents: maxUnacked, UnackedBytes: 1 << 30, FrameBytes: 1 << 20}))
	p.obey(step, nil)
	for {
		f, ok, err := up.next()
		if ok {
			err = p.frame(f)
		} else if err == io.EOF { //nolint:errorlint // as it is
			if _, err = p.core.HalfClose(); err == nil {
				p.down.close(io.EOF)
				return
			}
		}
		if err == nil {
			err = p.send()
		}
		if err != nil {
			p.giveBack(p.core.Expire, err.Error())
			p.down.close(err)
			return
		}
	}
}

func (p *producing) frame(f *sluicev1.SubscriberFrame) error {
	if err := wire.CheckSubscriberFrame(f); err != nil {
		return err
	}
	var step wire.Step
	var err error
	var done []stage.Range
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		done = wire.DoneOf(f.Ask.GetDone())
		step, err = p.core.Ask(f.Ask.GetN(), f.Ask.GetAcked(), done)
	case *sluicev1.SubscriberFrame_Ack:
		done = wire.DoneOf(f.Ack.GetDone())
		step, err = p.core.Ack(f.Ack.GetAcked(), done)
	case *sluicev1.SubscriberFrame_Cancel:
		done = wire.DoneOf(f.Cancel.GetDone())
		if f.Cancel.GetKind() == sluicev1.CancelKind_CANCEL_KIND_DRAIN {
			step, err = p.core.Ack(f.Cancel.GetAcked(), done)
			p.obey(step, done)
			p.up.Cancel(stage.Cancel[int]{Drain: true, Acked: p.core.Acked(), Done: done, Reason: f.Cancel.GetReason()})
			return err
		}
		p.giveBack(func() wire.Step {
			step, err = p.core.Cancel(f.Cancel.GetKind(), f.Cancel.GetAcked(), done, wire.DoneOf(f.Cancel.GetTried())...)
			return step
		}, f.Cancel.GetReason())
		return err
	}
	if err == nil {
		p.obey(step, done)
	}
	return err
}

// obey releases what is processed, and asks and acknowledges at the stage.
func (p *producing) obey(step wire.Step, done []stage.Range) {
	p.kept = p.kept[step.Release:]
	switch acked := p.core.Acked(); {
	case step.Allot > 0:
		_ = p.up.Ask(step.Allot, acked, done...)
	case acked > 0 || len(done) > 0:
		_ = p.up.Ack(acked, done...)
	}
}

// giveBack ends the session by end, and gives what it holds back to the stage, which
// delivers no more before that.
func (p *producing) giveBack(end func() wire.Step, why string) {
	p.up.Cancel(stage.Cancel[int]{Drain: true, Acked: p.core.Acked(), Reason: why})
	base := p.core.Acked()
	step := end()
	if p.core.Acked() != p.core.Sent() {
		return // it was no end
	}
	c := stage.Cancel[int]{Acked: base, Reason: why}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = true
	if len(step.Return) > 0 {
		c.Acked = step.Return[0].First - 1
		c.Done = between(step.Return, p.core.Sent())
	} else {
		c.Acked = p.core.Sent()
	}
	for _, r := range step.Return {
		for at := r.First; at <= r.Last; at++ {
			one := p.kept[at-base-1]
			if slices.ContainsFunc(step.Tried, func(t credit.Range) bool { return t.First <= at && at <= t.Last }) {
				one.Attempts++
			}
			c.Rest = append(c.Rest, one)
		}
	}
	for _, b := range p.queue {
		for _, e := range b.Events {
			c.Rest = append(c.Rest, stage.Returned[int]{Event: e, Attempts: b.Attempts})
		}
	}
	p.queue, p.kept = nil, nil
	p.up.Cancel(c)
}

// between are the positions from the first of ranges to last that they leave out.
func between(ranges []credit.Range, last int64) (gaps []stage.Range) {
	from := ranges[0].First
	for _, r := range append(ranges, credit.Range{First: last + 1, Last: last + 1}) {
		if r.First > from {
			gaps = append(gaps, stage.Range{First: from, Last: r.First - 1})
		}
		from = r.Last + 1
	}
	return gaps
}

// send sends what the stage has delivered, and then its end.
func (p *producing) send() error {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			if p.end != nil {
				p.core.End(reasonOf(p.end.Reason), text(p.end.Err))
			}
			p.mu.Unlock()
			break
		}
		b := p.queue[0]
		p.mu.Unlock()
		data, n, err := wire.Cut(port.Codec(), b.Events, frameRoom, 1<<20, nil)
		var step wire.Step
		if err == nil {
			step, err = p.core.Emit(int64(n))
		}
		if err != nil {
			return err
		}
		batch := wire.Batch{First: p.core.Sent() - int64(n) + 1, Events: data, More: n < len(b.Events)}
		for _, e := range b.Events[:n] {
			p.kept = append(p.kept, stage.Returned[int]{Event: e, Attempts: b.Attempts})
			if b.Redelivered {
				batch.Attempts = append(batch.Attempts, int32(b.Attempts))
			}
		}
		p.mu.Lock()
		if p.queue[0].Events = b.Events[n:]; len(p.queue[0].Events) == 0 {
			p.queue = p.queue[1:]
		}
		p.mu.Unlock()
		p.core.Wrote(p.core.Sent())
		head, body := batch.Frame()
		frame := new(sluicev1.ProducerFrame)
		if err := wire.ReadProducerFrame(append(head, body...), frame); err != nil {
			return err
		}
		p.down.put(frame)
		if step.Allot > 0 {
			_ = p.up.Ask(step.Allot, 0)
		}
	}
	if end, ok := p.core.EndDue(); ok {
		p.core.WroteEnd()
		p.down.put(wire.EndFrame(end))
	}
	return nil
}

func reasonOf(r stage.Reason) sluicev1.EndReason {
	for on, reason := range reasons {
		if reason == r {
			return on
		}
	}
	return sluicev1.EndReason_END_REASON_FAILED
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestBetween(t *testing.T) {
	require.Equal(t, []stage.Range{{First: 3, Last: 4}, {First: 7, Last: 8}},
		between([]credit.Range{{First: 2, Last: 2}, {First: 5, Last: 6}}, 8))
	require.Empty(t, between([]credit.Range{{First: 1, Last: 8}}, 8))
}
