// Package stagetest holds every way from an outlet to an inlet to the same behaviour.
// That a subscription in one process and one over a network are the same, they are
// because this suite says so.
//
// Whoever makes outlets, over another network or by wrapping others, tests them with
// it:
//
//	func TestOutlets(t *testing.T) {
//		stagetest.Test(t, func(t *testing.T, outlet stage.Outlet[int]) stage.Outlet[int] {
//			return Wrapped(outlet)
//		})
//	}
package stagetest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluicenet/sluice/pkg/stage"
)

// A Way gets from an outlet to where its events are wanted: it returns the outlet to
// subscribe to instead. It is called before the outlet's stage runs. What it starts, it
// stops when t is over.
type Way func(t *testing.T, outlet stage.Outlet[int]) stage.Outlet[int]

// Test checks that subscriptions to what way returns behave like subscriptions to the
// outlet itself: the demand cycle, batches and their order, ends, cancels, what comes
// back and how it is marked, what is discarded, refusals, and many subscribers.
//
// except are rows that cannot hold on this way, and why: [OnAWire] for one that
// crosses processes. Tests of those rows are skipped, and say so.
func Test(t *testing.T, way Way, except ...map[string]string) {
	known := maps.Clone(map[string]string{})
	for _, e := range except {
		maps.Copy(known, e)
	}
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, row := range strings.Fields(s.rows) {
				if why, ok := known[row]; ok {
					t.Skipf("%s: %s", row, why)
				}
			}
			s.play(newBench(t, way))
		})
	}
}

// OnAWire are the rows of docs/conformance.md that a subscription over a network
// cannot show as one in a process does, and why.
var OnAWire = map[string]string{
	"SUB-05": "an outlet of another node that has ended is there until its node leaves: who subscribes late is accepted, and told how it ended",
	"SUB-07": "a node's outlet is a name that any node may offer: that a gate feeds itself through it cannot be seen at either end",
	"DBX-18": "a function cannot travel: a selector runs where the events are consumed, and what it drops has been asked for and sent, and counts as processed",
	"DPX-14": "a selector runs where the events are consumed, whatever dispatcher the outlet has: there is nothing to refuse",
}

// scene is one thing that happens, and the rows that it shows.
type scene struct {
	name, rows string
	play       func(*bench)
}

func scenes() []scene {
	return slices.Concat(demandScenes, bufferScenes, endScenes, cancelScenes, backScenes,
		admissionScenes, sharedScenes, stageScenes)
}
