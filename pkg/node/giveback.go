package node

import (
	"github.com/sluicenet/sluice/internal/credit"
	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// apply obeys a step. The lock is held.
func (v *served[T]) apply(step wire.Step) todo[T] {
	t := todo[T]{ask: step.Allot}
	base := v.core.Acked() - step.Release // the position before kept[0]
	if len(step.Return) > 0 {
		t.cancel = &stage.Cancel[T]{
			Acked: step.Return[0].First - 1, Done: between(step.Return, base+step.Release), Rest: v.returned(step, base),
		}
	}
	v.release(step.Release)
	t.acked = v.core.Acked()
	return t
}

// release lets go of the first n events that are kept.
func (v *served[T]) release(n int64) {
	freed := int64(0)
	for n > 0 && len(v.kept) > 0 {
		c := &v.kept[0]
		part := min(n, int64(len(c.events)))
		bytes := c.bytes * part / int64(len(c.events))
		c.events, c.bytes = c.events[part:], c.bytes-bytes
		freed += bytes
		n -= part
		if len(c.events) == 0 {
			v.spare.put(c.room)
			*c = chunk[T]{}
			v.kept = v.kept[1:]
		}
	}
	v.bytes -= freed
	v.p.n.budget.free(freed)
}

// returned are the events that are given back. Those that a handler had count as tried.
func (v *served[T]) returned(step wire.Step, base int64) []stage.Returned[T] {
	var tried credit.Ranges
	for _, r := range step.Tried {
		tried.Add(r.First, r.Last)
	}
	if !step.Told {
		tried = v.guess(step.Return)
	}
	var back credit.Ranges
	for _, r := range step.Return {
		back.Add(r.First, r.Last)
	}
	var rest []stage.Returned[T]
	at := base
	for _, c := range v.kept {
		for _, e := range c.events {
			if at++; !back.Contains(at) {
				continue
			}
			attempts := int(c.attempts)
			if tried.Contains(at) {
				attempts++
			}
			rest = append(rest, stage.Returned[T]{Event: e, Attempts: attempts})
		}
	}
	return rest
}

// guess says which positions of those that come back the handler of a consumer may have
// had that died without a word: one batch at most, or everything where it finishes events
// out of order.
func (v *served[T]) guess(back []credit.Range) (tried credit.Ranges) {
	first, last := back[0].First, back[len(back)-1].Last
	// The terms are what a stranger says: a batch may be of any size.
	if batch := max(v.terms.MaxDemand-v.terms.MinDemand, 1); len(back) == 1 && batch <= last-first {
		last = first - 1 + batch
	}
	tried.Add(first, last)
	return tried
}

// drop gives what the session holds, queued events included, back to the stage,
// which has been told to deliver no more: see quiet. The lock is held.
func (v *served[T]) drop(step wire.Step, why string) todo[T] {
	t := v.apply(step)
	if t.cancel == nil {
		t.cancel = &stage.Cancel[T]{Acked: v.core.Acked()}
	}
	for _, c := range v.queue {
		for _, e := range c.events {
			t.cancel.Rest = append(t.cancel.Rest, stage.Returned[T]{Event: e, Attempts: int(c.attempts)})
		}
	}
	t.cancel.Reason = why
	v.queue, v.waiting, v.handed = nil, 0, true
	return t
}

// quiet lets the stage deliver no more, before what it has delivered is given back: a
// delivery on its way would be lost otherwise. The lock is not held.
func (v *served[T]) quiet(why string) {
	v.mu.Lock()
	acked := v.core.Acked()
	v.mu.Unlock()
	v.up.Cancel(stage.Cancel[T]{Drain: true, Acked: acked, Reason: why})
}

// between are the positions that ranges leave out, from the first of them to last.
func between(ranges []credit.Range, last int64) (gaps []stage.Range) {
	for i, r := range ranges {
		next := last + 1
		if i+1 < len(ranges) {
			next = ranges[i+1].First
		}
		if r.Last+1 < next {
			gaps = append(gaps, stage.Range{First: r.Last + 1, Last: next - 1})
		}
	}
	return gaps
}
