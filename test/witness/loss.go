//go:build linux

package witness

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicenet/sluice/pkg/stage"
)

// reasons judges why a process has discarded events. No stage of a pipeline fails or has
// a buffer of its own, and each takes what comes back: other reasons are mistakes.
func reasons(h *hop, p *producer, t *Tally) {
	for _, why := range slices.Sorted(maps.Keys(p.discarded)) {
		allowed := false
		switch why {
		case stage.DiscardEnded, stage.DiscardExhausted:
			allowed = !h.steady
		case stage.DiscardAtMostOnce:
			allowed = h.atMostOnce
		case stage.DiscardCopy:
			allowed = h.broadcast
		}
		if !allowed {
			t.offend("%v discarded %d events: %s", p.who, p.discarded[why], why)
		}
	}
}

// reported is how many events a process has said that it discarded.
func (p *producer) reported() (sum int) {
	for _, n := range p.discarded {
		sum += n
	}
	return sum
}

// lost judges the events that nobody has handled.
func lost(h *hop, p *producer, missing []int, t *Tally) {
	reported, killed := p.reported(), h.killed[p.who]
	allowed := reported
	if killed {
		allowed += h.held
	}
	t.Lost += len(missing)
	if killed {
		t.LostKilled += len(missing)
	} else {
		t.Discarded += reported
	}
	if len(missing) > allowed {
		t.offend("%d events of %v are lost, %d at most may be (killed: %v, discarded: %v, emitted: %d): %s",
			len(missing), p.who, allowed, killed, p.discarded, p.emitted, spans(missing))
	}
	if both := reported - len(missing); both > doubtful(h, p) {
		t.offend("%v has discarded %v, and %d of them were handled by some that lived", p.who, p.discarded, both-doubtful(h, p))
	}
}

// doubtful is how many events of a process may have been handled without its knowing so:
// by subscriptions that were killed or lost.
func doubtful(h *hop, p *producer) (sum int) {
	for _, s := range h.sessions {
		if !gone(h, s) {
			continue
		}
		handled := 0
		for _, b := range s.batches {
			if b.run == p.who.run {
				handled += b.len()
			}
		}
		sum += min(handled, h.maxDemand)
	}
	return sum
}

// missed judges what one subscriber of a broadcast has not had. Between two of its
// subscriptions it is owed nothing, and within one there is no gap. So there remains
// what follows on the last event of the last one, when that has ended well.
func missed(h *hop, p *producer, node string, missing []int, t *Tally) {
	t.Lost += len(missing)
	var last *session
	for _, s := range h.sessions {
		if s.who.node == node && len(s.batches) > 0 && s.batches[0].run == p.who.run && (last == nil || end(s) > end(last)) {
			last = s
		}
	}
	if last == nil {
		return
	}
	tail := p.emitted - end(last)
	allowed := p.discarded[stage.DiscardEnded] // copies are of those that are gone
	switch {
	case h.killed[p.who]:
		allowed += h.held
		t.LostKilled += min(tail, len(missing))
	case last.reason != "shutdown":
		return // its events went to nobody after it had ended
	default:
		t.Discarded += allowed
	}
	if gone(h, last) && !h.killed[p.who] || last.reason == "cancelled" {
		return
	}
	if tail > allowed {
		t.offend("the last %d events of %v have not reached %v, %d at most may be lost (discarded: %v)", tail, p.who, last, allowed, p.discarded)
	}
}

// end is the number of the last event of a subscription.
func end(s *session) int {
	ranges := s.batches[len(s.batches)-1].ranges
	return ranges[len(ranges)-1][1]
}

// spans says which numbers there are, the first of them.
func spans(n []int) string {
	text := ""
	for i := 0; i < len(n); {
		end := i
		for end+1 < len(n) && n[end+1] == n[end]+1 {
			end++
		}
		if len(text) > 100 {
			return text + ", ..."
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprint(n[i])
		if end > i {
			text += fmt.Sprintf("-%d", n[end])
		}
		i = end + 1
	}
	return text
}
