package main

import (
	"sync/atomic"

	"github.com/sluicenet/sluice/pkg/stage"
)

// counts is what passed over a subscription to another node. Unlike what sluicectl
// shows, it is still known when the subscription is over.
type counts struct{ asked, received, acked atomic.Int64 }

// counted is an outlet whose one subscription is counted.
type counted struct {
	stage.Outlet[string]
	counts *counts
}

// Attach implements stage.Outlet.
func (c counted) Attach(terms stage.Terms, to stage.Receiver[string]) (stage.Upstream[string], error) {
	up, err := c.Outlet.Attach(terms, countedReceiver{to, c.counts})
	if err != nil {
		return nil, err
	}
	return countedUpstream{up, c.counts}, nil
}

type countedReceiver struct {
	stage.Receiver[string]
	counts *counts
}

func (r countedReceiver) Deliver(b stage.Batch[string]) {
	r.counts.received.Add(int64(len(b.Events)))
	r.Receiver.Deliver(b)
}

type countedUpstream struct {
	stage.Upstream[string]
	counts *counts
}

func (u countedUpstream) Ask(n, acked int64) error {
	u.counts.asked.Add(n)
	u.acked(acked)
	return u.Upstream.Ask(n, acked)
}

func (u countedUpstream) Ack(acked int64) error {
	u.acked(acked)
	return u.Upstream.Ack(acked)
}

func (u countedUpstream) Cancel(c stage.Cancel[string]) {
	u.acked(c.Acked)
	u.Upstream.Cancel(c)
}

// acked notes a position. Asks come from several goroutines and may overtake each
// other.
func (u countedUpstream) acked(position int64) {
	for {
		known := u.counts.acked.Load()
		if position <= known || u.counts.acked.CompareAndSwap(known, position) {
			return
		}
	}
}
