//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicenet/sluice/test/harness"
)

// scenario is what happens to the machines of a lab. play returns what it has shown.
type scenario struct {
	name, what string
	play       func(l *lab) (string, error)
}

var scenarios = []scenario{
	{"split", "a cable is pulled for longer than gossip remembers", split},
	{"oneway", "what one node sends to another vanishes, not what it gets", oneWay},
	{"slow", "a link takes 100 kB a second", slow},
	{"moved", "nodes start again at other addresses", moved},
}

// run plays a scenario in a lab of its own.
func (s scenario) run(ctx context.Context, number int, dir, programs string) (shown string, err error) {
	l := &lab{
		ctx: ctx, name: s.name, number: number, dir: dir, programs: programs,
		moved: map[string]bool{}, running: map[string]*harness.Process{},
	}
	defer func() { l.close(err != nil) }()
	if err := l.build(); err != nil {
		return "", err
	}
	return s.play(l)
}

// The gate is cut off from both of its neighbours, until gossip has forgotten it. Within
// the resume window each line comes once and in order.
func split(l *lab) (string, error) {
	// memberlist keeps who is dead for 30 s.
	const forgets = 35 * time.Second
	if err := l.startAll(flow{count: 20_000, rate: 1000, window: 90 * time.Second}); err != nil {
		return "", err
	}
	if err := l.awaitWritten(3000); err != nil {
		return "", err
	}
	begin := time.Now()
	if err := l.unplug("b"); err != nil {
		return "", err
	}
	if err := l.awaitGossip("gone"); err != nil {
		return "", err
	}
	harness.Sleep(l.ctx, forgets)
	before, lasted, healed := l.written(), time.Since(begin), time.Now()
	if err := l.plug("b"); err != nil {
		return "", err
	}
	if err := l.awaitWritten(before + demand); err != nil {
		return "", err
	}
	took := time.Since(healed)
	if err := l.awaitGossip("gone", "found"); err != nil {
		return "", err
	}
	found := time.Since(healed)
	all, err := l.awaitAll()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%.0f s, flows again %.1f s after, gossip has found all after %.1f s; %d lines, each once and in order",
		lasted.Seconds(), took.Seconds(), found.Seconds(), l.flow.count), all.once()
}

// The sink's machine hears the gate's, and is not heard. TCP goes on for many minutes;
// both ends find the silence, and go on when it is over.
func oneWay(l *lab) (string, error) {
	// Silence may last for 30 s. The rest is for a machine that is busy.
	const deadline = 45 * time.Second
	if err := l.startAll(flow{count: 12_000, rate: 1000, window: 60 * time.Second}); err != nil {
		return "", err
	}
	if err := l.awaitWritten(3000); err != nil {
		return "", err
	}
	if err := l.deafen("c", "b"); err != nil {
		return "", err
	}
	begin := time.Now()
	found := map[string]time.Duration{}
	err := l.await("both ends find the silence", deadline, func() bool {
		for _, m := range []string{"b", "c"} {
			if age, ok := l.brokenFor(m); ok && found[m] == 0 {
				found[m] = time.Since(begin) - age
			}
		}
		return len(found) == 2
	})
	if err != nil {
		return "", err
	}
	before := l.written()
	if err := l.undeafen("c", "b"); err != nil {
		return "", err
	}
	healed := time.Now()
	if err := l.awaitWritten(before + demand); err != nil {
		return "", err
	}
	took := time.Since(healed)
	all, err := l.awaitAll()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("found after %.0f s by its producer, %.0f s by its consumer, flows again %.1f s after; %d lines, each once and in order",
		found["b"].Seconds(), found["c"].Seconds(), took.Seconds(), l.flow.count), all.once()
}

// The link of the source is slow. So is the source: it is not asked for more, and holds
// what it was asked for.
func slow(l *lab) (string, error) {
	const (
		rate    = 100_000 // bytes a second
		pad     = 200
		lasts   = 15 * time.Second
		ahead   = 4 * demand // what two stages ask for, and a gate's buffer
		maximum = 64 << 20
	)
	if err := l.throttle("a", rate); err != nil {
		return "", err
	}
	if err := l.startAll(flow{count: 200_000, pad: pad}); err != nil {
		return "", err
	}
	before, begin := l.written(), time.Now()
	harness.Sleep(l.ctx, lasts)
	made, err := l.made()
	if err != nil {
		return "", err
	}
	written := l.written()
	speed := float64(written-before) / time.Since(begin).Seconds()
	memory, err := l.running["a"].PeakMemory()
	switch {
	case err != nil:
		return "", err
	case speed*pad > 1.3*rate || speed*pad < 0.3*rate:
		return "", fmt.Errorf("%.0f lines a second of %d bytes pass a link of %d", speed, pad, rate)
	case made-written > ahead:
		return "", fmt.Errorf("the source has made %d lines, and %d are written", made, written)
	case memory > maximum:
		return "", fmt.Errorf("the source takes %d MiB", memory>>20)
	}
	if err := l.unthrottle("a"); err != nil {
		return "", err
	}
	lifted := time.Now()
	all, err := l.awaitAll()
	if err != nil {
		return "", err
	}
	rest := float64(l.flow.count-written) / time.Since(lifted).Seconds()
	return fmt.Sprintf("%.0f lines a second, the source %d ahead of the sink, its process %d MiB at most; %.0f a second without; %d lines, each once and in order",
		speed, made-written, memory>>20, rest, l.flow.count), all.once()
}

// The gate is stopped and starts elsewhere, then the sink is killed and starts elsewhere:
// nothing is lost, and what comes twice is what the sink had asked for at most.
func moved(l *lab) (string, error) {
	if err := l.startAll(flow{count: 12_000, rate: 1000}); err != nil {
		return "", err
	}
	if err := l.awaitWritten(2000); err != nil {
		return "", err
	}
	if err := l.stop("b"); err != nil {
		return "", err
	}
	took, err := l.elsewhere("b")
	if err != nil {
		return "", err
	}
	l.running["c"].Kill()
	again, err := l.elsewhere("c")
	if err != nil {
		return "", err
	}
	all, err := l.awaitAll()
	switch {
	case err != nil:
		return "", err
	case all.lost > 0 || all.twice > demand:
		return "", all.once()
	}
	return fmt.Sprintf("a gate that was stopped flows again %.1f s after it starts, a sink that was killed %.1f s; %d lines, none lost, %d twice",
		took.Seconds(), again.Seconds(), l.flow.count, all.twice), nil
}

// elsewhere starts a node that has ended at another address, and returns how long it is
// until it flows again.
func (l *lab) elsewhere(machine string) (time.Duration, error) {
	if err := l.move(machine); err != nil {
		return 0, err
	}
	before, begin := l.written(), time.Now()
	if err := l.start(machine); err != nil {
		return 0, err
	}
	err := l.awaitWritten(before + demand)
	return time.Since(begin), err
}
