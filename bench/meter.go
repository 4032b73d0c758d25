package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// Meter is what a process measures of itself.
type Meter struct {
	events atomic.Int64
	bytes  atomic.Int64
	delays Histogram
	timed  bool
	faults atomic.Pointer[string]
}

// Checker looks at the events of one subscription: that they come in order, and how
// old they are. One goroutine uses it.
type Checker struct {
	m    *Meter
	next uint64
	// late is set where a subscription begins in the middle, any where it gets a part of
	// the events.
	late, any bool
	last      time.Time
}

// Batch books a batch. Each event's first eight bytes are its number, or the time at
// which it was made.
func (k *Checker) Batch(events [][]byte) {
	if k.m.timed {
		now := uint64(time.Now().UnixNano())
		for _, e := range events {
			k.m.delays.add(now - binary.LittleEndian.Uint64(e))
		}
	}
	size := 0
	for _, e := range events {
		size += len(e)
		n := binary.LittleEndian.Uint64(e)
		if k.late {
			k.next, k.late = n, false
		}
		if n != k.next && !k.any && !k.m.timed {
			k.m.fail(fmt.Sprintf("event %d came where %d was due", n, k.next))
		}
		k.next = n + 1
	}
	k.m.events.Add(int64(len(events)))
	k.m.bytes.Add(int64(size))
}

// Round books that a round of one event took from the last call until now.
func (k *Checker) Round() {
	now := time.Now()
	if !k.last.IsZero() {
		k.m.delays.add(uint64(now.Sub(k.last)))
	}
	k.last = now
}

func (m *Meter) fail(what string) { m.faults.CompareAndSwap(nil, &what) }

// Snapshot is where a process stands.
type Snapshot struct {
	At       time.Time
	Events   int64
	Bytes    int64
	CPU      time.Duration
	Mallocs  uint64
	PeakKiB  int64
	Switches int64
	Delays   Histogram
	Fault    string `json:",omitempty"`
}

func (m *Meter) snapshot() Snapshot {
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	s := Snapshot{
		At: time.Now(), Events: m.events.Load(), Bytes: m.bytes.Load(), Mallocs: ms.Mallocs,
		CPU:     time.Duration(ru.Utime.Nano() + ru.Stime.Nano()),
		PeakKiB: ru.Maxrss, Switches: ru.Nvcsw + ru.Nivcsw,
		Delays: m.delays.copy(),
	}
	if f := m.faults.Load(); f != nil {
		s.Fault = *f
	}
	return s
}

// Histogram counts durations in steps of about six percent. Several goroutines may
// add to it.
type Histogram [64 * 16]int64

func slot(ns uint64) int {
	if ns < 16 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 5
	return (shift+1)*16 + int(ns>>shift) - 16
}

// ceiling is the largest duration in a slot.
func ceiling(slot int) time.Duration {
	if slot < 16 {
		return time.Duration(slot)
	}
	shift := slot/16 - 1
	return time.Duration((uint64(slot%16+16)+1)<<shift - 1)
}

func (h *Histogram) add(ns uint64) { atomic.AddInt64(&h[min(slot(ns), len(h)-1)], 1) }

func (h *Histogram) copy() (c Histogram) {
	for i := range h {
		c[i] = atomic.LoadInt64(&h[i])
	}
	return c
}

func (h Histogram) minus(o Histogram) Histogram {
	for i := range h {
		h[i] -= o[i]
	}
	return h
}

// quantile is the duration that a part q of all does not exceed; 0 for none.
func (h Histogram) quantile(q float64) time.Duration {
	var all int64
	for _, n := range h {
		all += n
	}
	if all == 0 {
		return 0
	}
	left := int64(q * float64(all))
	for i, n := range h {
		if left -= n; left < 0 {
			return ceiling(i)
		}
	}
	return ceiling(len(h) - 1)
}
