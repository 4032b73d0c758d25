package node

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/sluicenet/sluice/pkg/wire"
)

// guests counts what each peer has here, so that none of them can fill the node: its
// subscriptions, also those whose connection is broken, and its streams that have not
// said yet what they want. The two are counted apart: who comes back to all that it has
// needs a stream for each.
type guests struct {
	max int

	mu   sync.Mutex
	here map[string]guest
}

// guest is what one peer has.
type guest struct{ opening, held int }

// arrive books a stream that has not been opened, and depart that it has been, or is
// gone.
func (g *guests) arrive(who string) error {
	return g.add(who, func(x *guest) *int { return &x.opening }, "streams that it has not opened")
}

func (g *guests) depart(who string) { g.change(who, func(x *guest) { x.opening-- }) }

// hold books a subscription, and release that it is over.
func (g *guests) hold(who string) error {
	return g.add(who, func(x *guest) *int { return &x.held }, "subscriptions")
}

func (g *guests) release(who string) { g.change(who, func(x *guest) { x.held-- }) }

func (g *guests) add(who string, of func(*guest) *int, what string) (err error) {
	g.change(who, func(x *guest) {
		if n := of(x); *n < g.max {
			*n++
			return
		}
		err = &wire.Error{Rule: wire.RuleTooManySubscriptions, What: fmt.Sprintf("%q has %d %s here", who, g.max, what),
			Hint: "those whose connection broke count until their window is over; MaxSubscriptions of the node is the limit"}
	})
	return err
}

func (g *guests) change(who string, how func(*guest)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.here[who]
	how(&x)
	switch {
	case x == guest{}:
		delete(g.here, who)
	case g.here == nil:
		g.here = map[string]guest{who: x}
	default:
		g.here[who] = x
	}
}

// guestOf is whom a call counts for: who is at the other end by its certificate, or else
// the address that it comes from, without the port.
func guestOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if who := identityOf(p); who != "" {
		return who
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}
