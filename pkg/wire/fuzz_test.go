package wire

import (
	"errors"
	"testing"

	"github.com/sluicenet/sluice/internal/credit"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// FuzzFrames feeds both checks with whatever bytes are a frame. What they pass,
// the halves take without a mistake of the package's own: they answer, or refuse
// by a rule, and the law holds.
func FuzzFrames(f *testing.F) {
	for _, m := range someFrames() {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		up, down := new(sluicev1.SubscriberFrame), new(sluicev1.ProducerFrame)
		if proto.Unmarshal(b, up) == nil {
			if _, o, err := ReadOpen(up); byRule(t, err) {
				p, _, err := NewProducer(o, 5, 3)
				if byRule(t, err) {
					lawful(t, lawOfProducer(p))
				}
			}
			if byRule(t, CheckSubscriberFrame(up)) && up.GetFrame() == nil {
				t.Fatal("an empty frame was passed")
			}
		}
		if proto.Unmarshal(b, down) == nil && byRule(t, CheckProducerFrame(down)) && down.GetFrame() == nil {
			t.Fatal("an empty frame was passed")
		}
	})
}

// FuzzProducer feeds a producer's half with whatever frames a consumer sends, the
// first byte of each saying what its owner does before.
func FuzzProducer(f *testing.F) {
	f.Add(script(someFrames()))
	f.Add(script([]proto.Message{
		askFrame(3, 0, nil), ackFrame(2, []credit.Range{{First: 4, Last: 4}}),
		cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 2, nil, ""),
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, step, err := NewProducer(Opening{Triple: Triple{1, 1, 1}, Granted: 4}, 6, 3)
		if err != nil {
			t.Fatal(err)
		}
		ring := int64(0)
		obey := func(s Step) {
			if s.Release < 0 || s.Release > ring || s.Allot < 0 {
				t.Fatalf("%+v of %d retained", s, ring)
			}
			at := p.Sent() - ring
			for _, r := range s.Return {
				if r.First <= at || r.Last < r.First || r.Last > p.Sent() {
					t.Fatalf("%+v of %d retained up to %d", s, ring, p.Sent())
				}
				at = r.Last
			}
			if ring -= s.Release; ring != p.Unacked() {
				t.Fatalf("%d retained, and %d un-acked", ring, p.Unacked())
			}
		}
		obey(step)
		each(b, func(act byte, frame []byte) {
			ring += ownerOfProducer(t, p, act)
			up := new(sluicev1.SubscriberFrame)
			if proto.Unmarshal(frame, up) == nil {
				if step, err := feedProducer(p, up); byRule(t, err) {
					obey(step)
				}
			}
			lawful(t, lawOfProducer(p))
			if p.Allotted() > 3 || p.Unacked() > 6 {
				t.Fatalf("%d are allotted, and %d retained", p.Allotted(), p.Unacked())
			}
		})
		obey(p.Expire())
		if ring != 0 {
			t.Fatalf("%d events are left behind", ring)
		}
	})
}

func ownerOfProducer(t *testing.T, p *Producer, act byte) (emitted int64) {
	switch act % 5 {
	case 0:
		if n := p.Allotted(); n > 0 {
			step, err := p.Emit(n)
			if byRule(t, err) {
				require.Equal(t, Step{Allot: step.Allot}, step)
				return n
			}
		}
	case 1:
		if first, last, ok := p.Pending(); ok {
			p.Wrote((first + last) / 2)
		}
	case 2:
		p.Detach(p.Allotted())
	case 3:
		if end, ok := p.EndDue(); ok && end.GetLast() == p.Sent() {
			p.WroteEnd()
		}
	case 4:
		p.End(sluicev1.EndReason_END_REASON_COMPLETED, "")
	}
	return 0
}

func feedProducer(p *Producer, up *sluicev1.SubscriberFrame) (Step, error) {
	if up.GetOpen() != nil {
		_, o, err := ReadOpen(up)
		if err != nil {
			return Step{}, err
		}
		return p.Resume(o)
	}
	if err := CheckSubscriberFrame(up); err != nil {
		return Step{}, err
	}
	switch f := up.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Ask:
		return p.Ask(f.Ask.GetN(), f.Ask.GetAcked(), DoneOf(f.Ask.GetDone()))
	case *sluicev1.SubscriberFrame_Ack:
		return p.Ack(f.Ack.GetAcked(), DoneOf(f.Ack.GetDone()))
	case *sluicev1.SubscriberFrame_Cancel:
		return p.Cancel(f.Cancel.GetKind(), f.Cancel.GetAcked(), DoneOf(f.Cancel.GetDone()))
	}
	return Step{}, nil
}

// FuzzConsumer feeds a consumer's half with whatever frames a producer sends.
func FuzzConsumer(f *testing.F) {
	f.Add(script(someFrames()))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewConsumer(1, 1, 4)
		c.Open()
		each(b, func(act byte, frame []byte) {
			ownerOfConsumer(t, c, act)
			down := new(sluicev1.ProducerFrame)
			if proto.Unmarshal(frame, down) == nil && byRule(t, CheckProducerFrame(down)) {
				feedConsumer(t, c, down)
			}
			lawful(t, lawOfConsumer(c))
			for {
				said, halfClose := c.Next()
				if said == nil {
					if halfClose && !c.settled() {
						t.Fatal("half-closed with something left")
					}
					break
				}
				if err := CheckSubscriberFrame(said); err != nil {
					t.Fatal(err)
				}
			}
			lawful(t, lawOfConsumer(c))
		})
	})
}

func ownerOfConsumer(t *testing.T, c *Consumer, act byte) {
	switch act % 6 {
	case 0:
		byRule(t, c.Ask(int64(act)))
	case 1:
		byRule(t, c.Processed((c.Acked()+c.Received())/2, nil, act%2 == 0))
	case 2:
		byRule(t, c.Processed(c.Received(), nil, true))
	case 3:
		c.Broken()
		c.Open()
	case 4:
		byRule(t, c.Cancel(sluicev1.CancelKind(act/6%3), ""))
	case 5:
		c.Refused(RuleBusy, 7)
		c.Open()
	}
}

func feedConsumer(t *testing.T, c *Consumer, down *sluicev1.ProducerFrame) {
	switch f := down.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		byRule(t, c.Opened(f.Opened.GetEpoch(), f.Opened.GetGranted(), f.Opened.GetNext()))
	case *sluicev1.ProducerFrame_Batch:
		_, err := c.Batch(f.Batch.GetFirst(), int64(len(f.Batch.GetEvents())))
		byRule(t, err)
	case *sluicev1.ProducerFrame_End:
		byRule(t, c.End(f.End.GetLast(), f.End.GetReason(), f.End.GetMessage()))
	}
}

// byRule reports whether err is nil; an error is one by a rule.
func byRule(t *testing.T, err error) bool {
	t.Helper()
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Rule == "" || e.What == "") {
		t.Fatalf("not by a rule: %v", err)
	}
	return err == nil
}

func lawful(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script writes frames one after the other, for a fuzzer to take apart: what the
// owner does before, the length, the frame.
func script(frames []proto.Message) []byte {
	var b []byte
	for i, m := range frames {
		frame, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		b = protowire.AppendBytes(append(b, byte(i)), frame)
	}
	return b
}

func each(b []byte, do func(act byte, frame []byte)) {
	for len(b) > 0 {
		frame, n := protowire.ConsumeBytes(b[1:])
		if n < 0 {
			return
		}
		do(b[0], frame)
		b = b[1+n:]
	}
}

func someFrames() []proto.Message {
	p, _, err := NewProducer(Opening{Triple: Triple{1, 1, 1}, Granted: 4}, 6, 3)
	if err != nil {
		panic(err)
	}
	limits := Limits{UnackedEvents: 6, UnackedBytes: 1, FrameBytes: 1}
	about := &sluicev1.Open{Outlet: "o", Subscriber: &sluicev1.Subscriber{Node: "n", Stage: "s"}, MaxFrameBytes: 1}
	return []proto.Message{
		OpenFrame(about, Opening{Triple: Triple{1, 1, 2}, Known: true, Granted: 9, Received: 4, Acked: 1, Done: []credit.Range{{First: 3, Last: 4}}}),
		OpenFrame(about, Opening{Triple: Triple{1, 1, 1}, Granted: 9}),
		askFrame(5, 2, nil),
		ackFrame(1, []credit.Range{{First: 3, Last: 4}}),
		cancelFrame(sluicev1.CancelKind_CANCEL_KIND_DRAIN, 0, nil, "stop"),
		cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0, nil, "boom"),
		OpenedFrame(7, p, limits),
		batchFrame(&sluicev1.Batch{First: 1, Events: [][]byte{{1}, {2}}, Attempts: []int32{0, 1}, More: true, Backlog: 3}),
		batchFrame(&sluicev1.Batch{First: 3, Events: [][]byte{{3}}}),
		IdleFrame(3, 1),
		DrainingFrame(1),
		EndFrame(&sluicev1.End{Last: 3, Reason: sluicev1.EndReason_END_REASON_COMPLETED}),
	}
}
