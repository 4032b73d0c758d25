package node

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicenet/sluice/internal/authz"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// tapRoom is how many events may wait for a slow tap before it misses some.
const tapRoom = 256

// tapped is an event that a tap shows. It is encoded only when it is shown.
type tapped struct {
	said   *sluicev1.TapResponse
	encode func() []byte
}

func (a *admin) Tap(q *sluicev1.TapRequest, out sluicev1.AdminService_TapServer) error {
	if err := a.n.mayOperate(out.Context(), authz.Tap, q.GetOutlet()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	events := make(chan tapped, tapRoom)
	ends, err := a.tapAll(ctx, q, events)
	if err != nil {
		return err
	}
	// From here on it misses nothing without saying so.
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	for shown := int64(0); q.GetLimit() <= 0 || shown < q.GetLimit(); {
		select {
		case e := <-events:
			if e.encode != nil {
				e.said.Event = e.encode()
			}
			if err := out.Send(e.said); err != nil {
				return err
			}
			if len(e.said.GetUnreachable()) == 0 {
				shown++
			}
		case <-ends:
			// Nobody sends any more: what waits is shown, and that is all.
			if len(events) == 0 {
				return nil
			}
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-a.n.ctx.Done():
			return status.Error(codes.Unavailable, "the node is stopped")
		}
	}
	return nil
}

// tapAll taps the outlet here and, if asked, wherever else it is offered. ends is
// closed when all of them have ended.
func (a *admin) tapAll(ctx context.Context, q *sluicev1.TapRequest, events chan tapped) (ends <-chan struct{}, err error) {
	var taps sync.WaitGroup
	found := false
	a.n.mu.Lock()
	p := a.n.published[q.GetOutlet()]
	a.n.mu.Unlock()
	if p != nil {
		stop, err := a.tapHere(p, events)
		if err != nil {
			return nil, status.Error(codes.Unimplemented, err.Error())
		}
		found = true
		taps.Go(func() {
			defer stop()
			select {
			case <-p.done():
			case <-ctx.Done():
			}
		})
	}
	if q.GetScope() != sluicev1.Scope_SCOPE_NODE {
		publishers, _ := a.n.cluster.find(q.GetOutlet(), "")
		for _, m := range publishers {
			if m.node != a.n.config.Name {
				found = true
				taps.Go(func() { a.tapThere(ctx, q, m, events) })
			}
		}
	}
	if !found {
		return nil, status.Errorf(codes.NotFound, "no node offers an outlet %q", q.GetOutlet())
	}
	over := make(chan struct{})
	go func() {
		taps.Wait()
		close(over)
	}()
	return over, nil
}

// tapHere shows what an outlet of this node emits. It runs as a part of the flow, so
// it does not wait: what finds no room is missed, and counted.
func (a *admin) tapHere(p publication, events chan<- tapped) (stop func(), err error) {
	var missed int64
	codec := p.offer().Codec
	return p.tap(func(n int, encode func(i int) func() []byte) {
		for i := range n {
			// Nothing is made for an event that finds no room.
			if len(events) == cap(events) {
				missed += int64(n - i)
				return
			}
			select {
			case events <- tapped{&sluicev1.TapResponse{Node: a.n.config.Name, Codec: codec, Missed: missed}, encode(i)}:
				missed = 0
			default:
				missed++
			}
		}
	})
}

// tapThere shows what another node shows, and says so when it does not.
func (a *admin) tapThere(ctx context.Context, q *sluicev1.TapRequest, m publisher, to chan<- tapped) {
	show := func(r *sluicev1.TapResponse) bool {
		select {
		case to <- tapped{said: r}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	err := func() error {
		conn, done, err := a.n.peers.dial(m.address)
		if err != nil {
			return err
		}
		defer done()
		from, err := sluicev1.NewAdminServiceClient(conn).Tap(ctx, &sluicev1.TapRequest{
			Outlet: q.GetOutlet(), Limit: q.GetLimit(), Scope: sluicev1.Scope_SCOPE_NODE,
		})
		if err != nil {
			return err
		}
		for {
			r, err := from.Recv()
			if err != nil {
				return err
			}
			if !show(r) {
				return ctx.Err()
			}
		}
	}()
	if err != io.EOF { //nolint:errorlint // as Recv returns it
		show(&sluicev1.TapResponse{Unreachable: []*sluicev1.Unreachable{{Node: m.node, Address: m.address, Error: status.Convert(err).Message()}}})
	}
}
