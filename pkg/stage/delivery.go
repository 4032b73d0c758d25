package stage

import (
	"context"
	"sync"
)

// DeliveryInfo says where the batch of a handler comes from.
type DeliveryInfo struct {
	// Subscription is the one that it came on: a handler may ask for more on it, or
	// cancel it. Neither waits.
	Subscription *Subscription
	// Publisher is the node that the batch comes from; empty for this process. Several
	// may stand behind one subscription to an outlet on a network.
	Publisher string
	// Session numbers the publishers that this process has followed: one that was
	// started anew is another one. It is 0 in this process.
	Session uint64
	// First is the position of the first event that has arrived with the batch, from 1,
	// among those of its session. The others follow without a gap, but for those that a
	// selector has left out here.
	First int64
	// Redelivered says that the events were sent before, to a consumer that is gone,
	// and Attempts how often a handler has had them and did not finish.
	Redelivered bool
	Attempts    int
}

// Delivery returns where the batch comes from that the handler was called with, to
// which ctx was given, directly or by way of contexts that were made of it. It
// reports false elsewhere: in the handler of a source or of a message, and in a hook. It
// is valid for as long as the call of the handler takes.
func Delivery(ctx context.Context) (DeliveryInfo, bool) {
	h, ok := ctx.Value(deliveryKey{}).(*handlerContext)
	if !ok {
		return DeliveryInfo{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.info, h.info.Subscription != nil
}

type deliveryKey struct{}

// handlerContext is the context of all handlers of one stage, one after the other.
type handlerContext struct {
	context.Context
	mu   sync.Mutex
	info DeliveryInfo
}

func (h *handlerContext) Value(key any) any {
	if _, ok := key.(deliveryKey); ok {
		return h
	}
	return h.Context.Value(key)
}

func (h *handlerContext) set(sub *Subscription, from Member, first int64, r run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.info = DeliveryInfo{Subscription: sub, Publisher: from.Publisher, Session: from.Session, First: first, Redelivered: r.redelivered, Attempts: r.attempts}
}
