package stage

import (
	"slices"

	"github.com/sluicenet/sluice/internal/credit"
)

// heldAsk is an ask that the dispatcher has not been told of.
type heldAsk[T any] struct {
	sub *outflow[T]
	n   int64
}

// maxHeld is how many asks are held one by one. Then an ask joins the last one that is
// held for its subscriber.
const maxHeld = 1000

// hold keeps an ask for forward.
func (p *producer[T]) hold(sub *outflow[T], n int64) {
	if len(p.held) >= maxHeld {
		for i := range slices.Backward(p.held) {
			if h := &p.held[i]; h.sub == sub {
				h.n = credit.Add(h.n, n)
				return
			}
		}
	}
	p.held = append(p.held, heldAsk[T]{sub, n})
}

// forward lets the asks pass that were held, one by one in their order, and all that
// follow.
func (p *producer[T]) forward() {
	held := p.held
	p.holding, p.held = false, nil
	for _, h := range held {
		p.grant(h.sub, h.n)
		p.settle(0)
	}
}

// unhold forgets the asks that are held for a subscriber, and returns their sum.
func (p *producer[T]) unhold(sub *outflow[T]) (n int64) {
	p.held = slices.DeleteFunc(p.held, func(h heldAsk[T]) bool {
		if h.sub == sub {
			n = credit.Add(n, h.n)
		}
		return h.sub == sub
	})
	return n
}

// heldOf is the sum of the asks that are held for a subscriber.
func (p *producer[T]) heldOf(sub *outflow[T]) (n int64) {
	for _, h := range p.held {
		if h.sub == sub {
			n = credit.Add(n, h.n)
		}
	}
	return n
}
