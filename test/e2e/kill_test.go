//go:build linux

package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/test/witness"
)

// The demand of the gate and of the sink, in the tests in which one of them is killed.
const demand = 100

// killed runs a source, a gate and a sink, kills the process of one of them in the
// middle, starts it anew, and drains everything when the flow has gone on. What was
// written down is held to the promises; it returns what that adds up to, for the outlet
// of the source and that of the gate.
func killed(t *testing.T, who string) (source, gate *witness.Tally) {
	t.Helper()
	t.Parallel()
	net, err := witness.Start(t.TempDir(), 1, witness.Pipeline{
		Name: "p", Dispatcher: "demand", Sinks: 1, MaxDemand: demand, Window: 10 * time.Second, PerEvent: 4 * time.Millisecond, // so that the sink is the brake, on a busy machine too
	})
	t.Cleanup(net.Close)
	require.NoError(t, err)
	sink := net.Node("sink1")
	eventually(t, func() bool { return sink.Handled() > 5*demand }, "the flow flows")
	n := net.Node(who)
	n.Kill()
	before := sink.Handled()
	require.NoError(t, n.Start())
	// What there was is at most what everybody holds: the rest is new.
	eventually(t, func() bool { return sink.Handled() > before+5*demand }, "the flow goes on")
	net.Drain()
	require.Empty(t, net.Wrongs())
	tallies, err := net.Check()
	require.NoError(t, err)
	source, gate = tallies[0], tallies[1]
	// Among these: what came twice came marked, and its first subscription was killed or
	// lost; fresh events came in order; what was discarded was reported.
	require.Empty(t, append(source.Offences, gate.Offences...))
	t.Logf("%+v", *source)
	t.Logf("%+v", *gate)
	return source, gate
}

// A sink that is killed costs nothing: what it had not acknowledged, at most its demand,
// comes again, marked.
func TestKilledSinkLosesNothing(t *testing.T) {
	source, gate := killed(t, "sink1")
	require.Zero(t, source.Lost)
	require.Zero(t, source.Twice)
	require.Equal(t, 1, gate.ConsumersKilled)
	require.Zero(t, gate.Lost)
	require.NotZero(t, gate.Again, "it was killed while it handled a batch")
	require.LessOrEqual(t, gate.Again, demand)
	require.LessOrEqual(t, gate.Twice, gate.Again)
}

// A gate that is killed costs what it had made and not had acknowledged. It makes one
// event of each: so its buffer has room for what it has asked for, and its sink has
// asked for as much.
func TestKilledGateLosesWhatItHeld(t *testing.T) {
	source, gate := killed(t, "gate")
	require.Equal(t, 1, source.ConsumersKilled)
	require.Zero(t, source.Lost, "inputs whose handler had not returned come back")
	require.LessOrEqual(t, source.Again, demand)
	require.LessOrEqual(t, source.Twice, source.Again)
	require.Equal(t, 1, gate.ProducersKilled)
	require.LessOrEqual(t, gate.Lost, demand+demand)
	require.Equal(t, gate.Lost, gate.LostKilled)
	require.Zero(t, gate.Twice)
}

// A source that is killed costs what it had made and not had acknowledged, at most what
// was asked of it. Its gate waits, and goes on with the next one.
func TestKilledSourceLosesWhatItHeld(t *testing.T) {
	source, gate := killed(t, "source")
	require.Equal(t, 1, source.ProducersKilled)
	require.LessOrEqual(t, source.Lost, demand)
	require.Equal(t, source.Lost, source.LostKilled)
	require.Zero(t, source.Again, "what is gone does not come again")
	require.Equal(t, 2, source.Sessions, "one to each of the two processes")
	require.Zero(t, gate.Lost)
	require.Zero(t, gate.Twice)
}
