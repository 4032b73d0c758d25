package dispatch

import (
	"cmp"
	"container/heap"
)

// account stands for what one subscriber has asked for and was not given.
type account struct {
	id   ID
	rank int64  // the account with the least comes first
	turn uint64 // among equals, the one that has come to its rank first
	at   int    // in the order
}

// accounts finds the subscriber that comes first. Each change costs no more than a few
// steps, however many there are: a stranger decides how many.
type accounts struct {
	order order
	of    map[ID]*account
	turn  uint64
}

func (a *accounts) join(id ID, rank int64) {
	x := &account{id: id, rank: rank}
	if a.of == nil {
		a.of = map[ID]*account{}
	}
	a.turn++
	x.turn = a.turn
	a.of[id] = x
	heap.Push(&a.order, x)
}

// leave returns the account that is closed, or nil.
func (a *accounts) leave(id ID) *account {
	x := a.of[id]
	if x != nil {
		delete(a.of, id)
		heap.Remove(&a.order, x.at)
	}
	return x
}

// move gives an account a new rank, behind its equals.
func (a *accounts) move(x *account, rank int64) {
	a.turn++
	x.rank, x.turn = rank, a.turn
	heap.Fix(&a.order, x.at)
}

// first is the account that comes first, or nil.
func (a *accounts) first() *account {
	if len(a.order) == 0 {
		return nil
	}
	return a.order[0]
}

// order implements heap.Interface.
type order []*account

func (o order) Len() int { return len(o) }

func (o order) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(o[i].rank, o[j].rank), cmp.Compare(o[i].turn, o[j].turn)) < 0
}

func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

// Push implements heap.Interface.
func (o *order) Push(x any) {
	a := x.(*account)
	a.at = len(*o)
	*o = append(*o, a)
}

// Pop implements heap.Interface.
func (o *order) Pop() any {
	last := len(*o) - 1
	a := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return a
}
