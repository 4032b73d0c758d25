package dispatchtest_test

import (
	"testing"

	"github.com/sluicenet/sluice/pkg/dispatch"
	"github.com/sluicenet/sluice/pkg/dispatch/dispatchtest"
)

// sticky gives events of one key to one subscriber for as long as that is there, by
// rendezvous hashing. It has lanes and no partitions, and some of its subscribers may
// have no lane.
type sticky struct {
	key    func(int) int
	credit map[dispatch.ID]int64
	owner  [8]dispatch.ID
	to     [1]dispatch.ID
}

func newSticky() dispatch.Dispatcher[int] {
	return &sticky{key: func(event int) int { return event }, credit: map[dispatch.ID]int64{}}
}

func (*sticky) Kind() string           { return "sticky" }
func (s *sticky) Lanes() int           { return len(s.owner) }
func (s *sticky) Lane(event int) int   { return s.key(event) % len(s.owner) }
func (s *sticky) Leave(id dispatch.ID) { delete(s.credit, id); s.share() }

func (s *sticky) Join(id dispatch.ID, terms dispatch.Terms) error {
	if terms.Partition != dispatch.NoPartition || terms.Selector {
		return dispatch.ErrUnsupported
	}
	s.credit[id] = 0
	s.share()
	return nil
}

// share says who owns which lane.
func (s *sticky) share() {
	for lane := range s.owner {
		best := uint64(0)
		s.owner[lane] = 0
		for id := range s.credit {
			if w := mix(uint64(id)<<32 | uint64(lane+1)); w > best {
				best, s.owner[lane] = w, id
			}
		}
	}
}

func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (s *sticky) Ask(id dispatch.ID, n int64) {
	if had, here := s.credit[id]; here {
		s.credit[id] = sum(had, n)
	}
}

func (s *sticky) Revoke(id dispatch.ID) int64 {
	had, here := s.credit[id]
	if here {
		s.credit[id] = 0
	}
	return had
}

func (s *sticky) Demand() (n int64) {
	owners := map[dispatch.ID]bool{}
	for _, id := range s.owner {
		if !owners[id] {
			n = sum(n, s.credit[id])
		}
		owners[id] = true
	}
	return n
}

func (s *sticky) Next(waiting func(lane int) int) (dispatch.Delivery, bool) {
	for lane, id := range s.owner {
		if n := min(int64(waiting(lane)), s.credit[id]); n > 0 {
			s.credit[id] -= n
			s.to[0] = id
			return dispatch.Delivery{Lane: lane, N: int(n), To: s.to[:]}, true
		}
	}
	return dispatch.Delivery{}, false
}

func TestSticky(t *testing.T) { dispatchtest.Test(t, newSticky) }
