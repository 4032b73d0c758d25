package node

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// answerTime is how long other nodes are given, where the caller sets no limit, and
// goneTime how long one that gossip calls dead is given.
const (
	answerTime = 3 * time.Second
	goneTime   = time.Second
)

// silence is a member that did not answer.
type silence struct {
	member
	err error
}

// ask calls one for every member, at once, and returns what they said, and who did not
// answer, or refused to. They get most of the time that the caller has, so that its answer
// arrives. Gossip is a hint here too: whom it calls dead is asked all the same, unless
// that has said goodbye and is heard no more.
func ask[T any](ctx context.Context, a *admin, scope sluicev1.Scope, one func(context.Context, sluicev1.AdminServiceClient) ([]T, error)) (said []T, silent []silence) {
	if scope == sluicev1.Scope_SCOPE_NODE {
		return nil, nil
	}
	limit := answerTime
	if d, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(d)*8/10)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range a.audience() {
		limit := limit
		if m.gone {
			limit = min(limit, goneTime)
		}
		wg.Go(func() {
			rows, err := askOne(ctx, a, m, limit, one)
			mu.Lock()
			defer mu.Unlock()
			said = append(said, rows...)
			if err != nil {
				silent = append(silent, silence{m, err})
			}
		})
	}
	wg.Wait()
	sort.Slice(silent, func(i, j int) bool { return silent[i].node < silent[j].node })
	return said, silent
}

func askOne[T any](ctx context.Context, a *admin, m member, limit time.Duration, one func(context.Context, sluicev1.AdminServiceClient) ([]T, error)) (rows []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, done, err := a.n.peers.dial(m.address)
	if err == nil {
		defer done()
		rows, err = one(ctx, sluicev1.NewAdminServiceClient(conn))
	}
	switch {
	case err == nil:
		return rows, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = errors.New("no answer in time")
	}
	if m.gone {
		err = fmt.Errorf("%s: %s", m.unheard(), status.Convert(err).Message())
	}
	return rows, err
}

// audience are the members that are asked: the living, those that are called dead, and
// those with which a stream is open. Where one of the living has the address by now, that
// one answers.
func (a *admin) audience() (all []member) {
	members, _ := a.n.cluster.view()
	talks := a.n.talking()
	present := map[string]bool{a.n.address: true}
	for _, m := range members {
		if !m.gone {
			present[m.address] = true
			all = append(all, m)
		}
	}
	for _, m := range members {
		if m.gone && !present[m.address] && (!m.draining || talks[m.node]) {
			present[m.address] = true
			all = append(all, m)
		}
	}
	return all
}

// talking are the names of the nodes with which a stream is open.
func (n *Node) talking() map[string]bool {
	all := map[string]bool{}
	for _, i := range n.inboundAll() {
		switch r := i.row(); r.GetState() {
		case "waiting", "opening", "reconnecting":
		default:
			all[r.GetProducerNode()] = true
		}
	}
	for _, p := range n.publications() {
		for _, r := range p.rows() {
			if r.GetState() != "reconnecting" {
				all[r.GetConsumerNode()] = true
			}
		}
	}
	return all
}

// unheard says since when gossip calls a member dead.
func (m *member) unheard() string {
	return "gossip has not heard of it since " + m.since.Format(time.TimeOnly)
}

// unreachable is how the silent are named in an answer.
func unreachable(silent []silence) []*sluicev1.Unreachable {
	var all []*sluicev1.Unreachable
	for _, s := range silent {
		all = append(all, &sluicev1.Unreachable{Node: s.node, Address: s.address, Error: status.Convert(s.err).Message()})
	}
	return all
}
