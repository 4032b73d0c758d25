package stagetest

import (
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/stage"
)

// reader is a consumer of the scene's own, which asks and acknowledges by hand.
type reader struct {
	stage.Upstream[int]
	b       *bench
	opened  bool
	batches []stage.Batch[int]
	count   int
	ending  *stage.Ending
}

func (r *reader) Opened()              { r.b.note(func() { r.opened = true }) }
func (r *reader) Ended(e stage.Ending) { r.b.note(func() { r.ending = &e }) }
func (r *reader) Deliver(b stage.Batch[int]) {
	b.Events = slices.Clone(b.Events)
	r.b.note(func() {
		r.batches = append(r.batches, b)
		r.count += len(b.Events)
	})
}

// batchOf is how many events a reader is taken to handle at once.
const batchOf = 2

func terms(name string) stage.Terms {
	return stage.Terms{Stage: name, MaxDemand: 10, MinDemand: 10 - batchOf, Partition: dispatch.NoPartition}
}

func inPartition(name string, p int) stage.Terms {
	t := terms(name)
	t.Partition = p
	return t
}

// read makes a subscription by hand, and waits until it is accepted.
func (b *bench) read(out stage.Outlet[int], t stage.Terms) *reader {
	b.Helper()
	r := &reader{b: b}
	up, err := out.Attach(t, r)
	require.NoError(b, err)
	r.Upstream = up
	b.Cleanup(func() { r.fail(0) })
	b.await("the subscription is accepted", func() bool { return r.opened })
	return r
}

// ask asks for n, and acknowledges everything up to acked.
func (r *reader) ask(n, acked int64) {
	r.b.Helper()
	require.NoError(r.b, r.Ask(n, acked))
}

// has waits until n events have arrived in all, and returns all that have.
func (r *reader) has(n int) (all []int) {
	r.b.Helper()
	r.b.await("the events arrive", func() bool { return r.count >= n })
	r.b.note(func() {
		for _, b := range r.batches {
			all = append(all, b.Events...)
		}
	})
	return all
}

func (r *reader) deliveries() (all []stage.Batch[int]) {
	r.b.note(func() { all = slices.Clone(r.batches) })
	return all
}

// ended waits for the end.
func (r *reader) ended() stage.Ending {
	r.b.Helper()
	r.b.await("the subscription ends", func() bool { return r.ending != nil })
	return *r.ending
}

// fail gives back what is neither acknowledged nor done. Of the batch behind acked it was
// tried.
func (r *reader) fail(acked int64, done ...stage.Range) {
	var rest []stage.Returned[int]
	var tried []stage.Range
	at := int64(0)
	for _, b := range r.deliveries() {
		for _, e := range b.Events {
			at++
			if at <= acked || slices.ContainsFunc(done, func(d stage.Range) bool { return d.First <= at && at <= d.Last }) {
				continue
			}
			one := stage.Returned[int]{Event: e, Attempts: b.Attempts}
			if at <= acked+batchOf {
				one.Attempts++
				if n := len(tried); n > 0 && tried[n-1].Last == at-1 {
					tried[n-1].Last = at
				} else {
					tried = append(tried, stage.Range{First: at, Last: at})
				}
			}
			rest = append(rest, one)
		}
	}
	r.Cancel(stage.Cancel[int]{Acked: acked, Done: done, Tried: tried, Rest: rest, Reason: "it failed"})
}

// drain ends the subscription when everything that was sent is processed.
func (r *reader) drain(acked int64) {
	r.Cancel(stage.Cancel[int]{Drain: true, Acked: acked, Reason: "no more"})
}

// refused makes a subscription by hand that is to be refused, and returns why it was.
func (b *bench) refused(out stage.Outlet[int], t stage.Terms) error {
	b.Helper()
	r := &reader{b: b}
	if _, err := out.Attach(t, r); err != nil {
		return err
	}
	e := r.ended()
	require.Equal(b, stage.Refused, e.Reason)
	return e.Err
}

// byHand is an outlet whose producer is the scene.
type byHand struct {
	b       *bench
	to      stage.Receiver[int]
	asked   atomic.Int64
	acked   atomic.Int64
	cancels []stage.Cancel[int]
}

func (h *byHand) OutletName() string    { return "by hand" }
func (h *byHand) Done() <-chan struct{} { return nil }
func (h *byHand) Attach(_ stage.Terms, r stage.Receiver[int]) (stage.Upstream[int], error) {
	r.Opened()
	h.b.note(func() { h.to = r })
	return h, nil
}

func (h *byHand) Ask(n, acked int64, _ ...stage.Range) error {
	h.b.note(func() { h.asked.Add(n); h.acked.Store(acked) })
	return nil
}

func (h *byHand) Ack(acked int64, _ ...stage.Range) error {
	h.b.note(func() { h.acked.Store(acked) })
	return nil
}

// Cancel answers as a producer has to.
func (h *byHand) Cancel(c stage.Cancel[int]) {
	first := false
	h.b.note(func() { first = len(h.cancels) == 0; h.cancels = append(h.cancels, c) })
	if first {
		h.to.Ended(stage.Ending{Reason: stage.Cancelled})
	}
}
func (h *byHand) Revoke() int64       { return 0 }
func (h *byHand) Discard(int, string) {}
