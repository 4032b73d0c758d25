package node

import (
	"fmt"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
)

// unrun is the watch for a stage that is published and that nobody runs: its subscribers
// are accepted, and wait. The goroutine that reconciles has it to itself.
type unrun struct {
	since  time.Time // when it was first looked at
	looked bool      // it was looked at when it should have run
}

// noticeUnrun warns of what is published and nobody runs.
func (n *Node) noticeUnrun() {
	for _, p := range n.publications() {
		p.noticeUnrun()
	}
}

// noticeUnrun implements publication.
func (p *published[T]) noticeUnrun() {
	u, patience := &p.run, p.n.tuning.unrun
	switch {
	case u.looked:
		return
	case u.since.IsZero():
		u.since = time.Now()
		return
	case time.Since(u.since) < patience:
		return
	}
	u.looked = true
	if i, ok := p.outlet.(stage.Inspector); ok && i.Inspect().State == "ready" {
		p.n.log.Warn("a stage that is published does not run", "outlet", p.port.Name(),
			"why", fmt.Sprintf("nobody has run it for %v, so its subscribers get nothing and are told nothing", patience),
			"hint", "give it to stage.Run together with the node, or do not publish it")
	}
}
