package wire

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/sluicenet/sluice/internal/credit"
)

var seed = maphash.MakeSeed()

// key is the same for worlds that cannot be told apart. A search comes to each of
// them many times, so it is written down by hand.
func (w *world) key() uint64 {
	k := make(key, 0, 512)
	k.consumer(w.c)
	k.add(int64(w.cOver), w.credit, int64(w.epoch), int64(w.marked), int64(w.excused))
	k.triple(w.last)
	k.add(w.queue...)
	k.ids(w.ring)
	k.ids(w.buffer)
	k.flags(w.stageDone, w.apart)
	k = append(k, w.processed[:]...)
	k.ids([]int{w.cuts, w.drains, w.fails, w.expiries, w.late, w.crashes, w.restarts})
	if w.p != nil {
		k.producer(w.p)
	}
	for _, s := range w.streams {
		k.triple(s.id)
		k.flags(s.broken, s.cGone, s.gone)
		for _, l := range s.up {
			k = append(k, l.key...)
		}
		k = append(k, '|')
		for _, l := range s.down {
			k = append(k, l.key...)
		}
	}
	return maphash.Bytes(seed, k)
}

// key writes each value so that it ends where it ends.
type key []byte

func (k *key) add(vs ...int64) {
	*k = binary.AppendUvarint(*k, uint64(len(vs)))
	for _, v := range vs {
		*k = binary.AppendVarint(*k, v)
	}
}

func (k *key) ids(ids []int) {
	*k = binary.AppendUvarint(*k, uint64(len(ids)))
	for _, id := range ids {
		*k = binary.AppendUvarint(*k, uint64(id))
	}
}

func (k *key) flags(fs ...bool) {
	for _, f := range fs {
		if f {
			*k = append(*k, 1)
		} else {
			*k = append(*k, 0)
		}
	}
}

func (k *key) triple(t Triple) { k.add(int64(t.Incarnation), int64(t.Session), int64(t.Attempt)) }

func (k *key) ranges(rs []credit.Range) {
	*k = binary.AppendUvarint(*k, uint64(len(rs)))
	for _, r := range rs {
		k.add(r.First, r.Last)
	}
}

func (k *key) consumer(c *Consumer) {
	k.triple(c.last)
	k.add(int64(c.epoch), c.granted, c.received, c.acked, int64(c.cancel), c.end.GetLast(), int64(c.end.GetReason()))
	k.add(c.on.granted, c.on.acked, int64(c.on.cancel))
	k.flags(c.known, c.end != nil, c.on.open, c.on.opened, c.on.ended, c.on.owed, c.on.halfClosed)
	k.ranges(c.done.All())
	k.ranges(c.on.untold.All())
}

func (k *key) producer(p *Producer) {
	k.triple(p.last)
	k.add(p.granted, p.allotted, p.sent, p.acked, p.next, int64(p.reason))
	k.flags(p.attached, p.ended, p.endWritten, p.failed, p.over)
	k.ranges(p.done.All())
}
