package node

import (
	"context"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// wired is a stream in memory. Each direction can lose what is sent, and has room for
// some frames: whoever sends more waits for the reader. What has been sent before a break
// arrives.
type wired struct {
	up   chan *sluicev1.SubscriberFrame
	down chan *sluicev1.ProducerFrame
	// ends are the contexts of the consumer's end and of the producer's.
	ends [2]context.Context
	cuts [2]context.CancelFunc

	lost [2]atomic.Bool // up, down
	sent [2]atomic.Int64
	// moment, if not nil, is asked at each frame, and does what passes it on.
	moment func(kind string, pass func() error) error

	answered chan struct{} // closed when the producer has closed the stream, with err
	err      error
}

const wiredRoom = 100

func newPair() *wired {
	p := &wired{up: make(chan *sluicev1.SubscriberFrame, wiredRoom), down: make(chan *sluicev1.ProducerFrame, wiredRoom), answered: make(chan struct{})}
	for end := range p.ends {
		p.ends[end], p.cuts[end] = context.WithCancel(context.Background())
	}
	p.moment = func(_ string, pass func() error) error { return pass() }
	return p
}

// cut breaks the stream for both ends.
func (p *wired) cut() {
	p.cuts[0]()
	p.cuts[1]()
}

// kinds of frames, and what else happens on a stream.
const (
	halfClose = "half-close"
	closing   = "ok"
)

func kindUp(f *sluicev1.SubscriberFrame) string {
	switch f := f.GetFrame().(type) {
	case *sluicev1.SubscriberFrame_Open:
		return "open"
	case *sluicev1.SubscriberFrame_Ask:
		return "ask"
	case *sluicev1.SubscriberFrame_Ack:
		return "ack"
	case *sluicev1.SubscriberFrame_Cancel:
		if f.Cancel.GetKind() == sluicev1.CancelKind_CANCEL_KIND_DRAIN {
			return "drain"
		}
		return "failed"
	}
	return "?"
}

func kindDown(f *sluicev1.ProducerFrame) string {
	switch f.GetFrame().(type) {
	case *sluicev1.ProducerFrame_Opened:
		return "opened"
	case *sluicev1.ProducerFrame_Batch:
		return "batch"
	case *sluicev1.ProducerFrame_Idle:
		return "idle"
	case *sluicev1.ProducerFrame_Draining:
		return "draining"
	case *sluicev1.ProducerFrame_End:
		return "end"
	}
	return "?"
}

func put[F any](p *wired, way int, c chan F, f F) error {
	p.sent[way].Add(1)
	if p.lost[way].Load() {
		return nil
	}
	select {
	case c <- f:
		return nil
	case <-p.answered:
	case <-p.ends[way].Done():
	}
	return io.EOF
}

// take receives what was sent, also when the stream is over by now.
func take[F any](c chan F) (f F, some, open bool) {
	select {
	case f, open := <-c:
		return f, true, open
	default:
		return f, false, true
	}
}

// serve lets a node serve the producer's end.
func (p *wired) serve(n *Node) {
	err := (&subscriptions{n: n}).Subscribe(producerSide{wired: p})
	_ = p.moment(closing, func() error {
		p.err = err
		close(p.answered)
		return nil
	})
	p.cuts[1]()
}

// consumerSide and producerSide are the ends, as gRPC has them.
type consumerSide struct {
	grpc.ClientStream
	*wired
}

func (c consumerSide) Send(f *sluicev1.SubscriberFrame) error { return c.SendMsg(f) }

// SendMsg is what a consumer calls that has encoded its frame.
func (c consumerSide) SendMsg(m any) error {
	f, _ := m.(*sluicev1.SubscriberFrame)
	if p, ok := m.(*packed); ok {
		f = new(sluicev1.SubscriberFrame)
		if err := wire.ReadSubscriberFrame(*p.body, f); err != nil {
			return err
		}
	}
	return c.moment(kindUp(f), func() error { return put(c.wired, 0, c.up, f) })
}

func (c consumerSide) CloseSend() error {
	return c.moment(halfClose, func() error { close(c.up); return nil })
}

func (c consumerSide) Recv() (*sluicev1.ProducerFrame, error) {
	select {
	case f := <-c.down:
		return f, nil
	case <-c.answered:
	case <-c.ends[0].Done():
	}
	if f, some, _ := take(c.down); some {
		return f, nil
	}
	switch {
	case c.ends[0].Err() != nil:
		return nil, status.FromContextError(c.ends[0].Err()).Err()
	case c.err == nil:
		return nil, io.EOF
	}
	return nil, status.Convert(c.err).Err()
}

type producerSide struct {
	grpc.ServerStream
	*wired
}

func (c consumerSide) Context() context.Context { return c.ends[0] }
func (p producerSide) Context() context.Context { return p.ends[1] }

func (p producerSide) SendMsg(m any) error {
	f, err := decoded(m)
	if err != nil {
		return err
	}
	return p.moment(kindDown(f), func() error { return put(p.wired, 1, p.down, f) })
}

func (p producerSide) Send(f *sluicev1.ProducerFrame) error { return p.SendMsg(f) }

// decoded is what a session sends, as a message.
func decoded(frame any) (*sluicev1.ProducerFrame, error) {
	if f, ok := frame.(*packed); ok {
		m := new(sluicev1.ProducerFrame)
		return m, wire.ReadProducerFrame(append(f.head, *f.body...), m)
	}
	m, _ := frame.(*sluicev1.ProducerFrame)
	return m, nil
}

// RecvMsg is what a consumer calls that uses its frame again.
func (c consumerSide) RecvMsg(m any) error {
	f, err := c.Recv()
	if err != nil {
		return err
	}
	data, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	return m.(*arrival).read(mem.BufferSlice{mem.SliceBuffer(data)})
}

func (p producerSide) Recv() (*sluicev1.SubscriberFrame, error) {
	var f *sluicev1.SubscriberFrame
	open := true
	select {
	case f, open = <-p.up:
	case <-p.ends[1].Done():
		f, _, open = take(p.up)
	}
	switch {
	case !open:
		return nil, io.EOF
	case f == nil:
		return nil, status.Error(codes.Canceled, "the stream is over")
	}
	return f, nil
}
