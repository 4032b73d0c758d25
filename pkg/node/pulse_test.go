package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
)

// receiver is a stage that handles what it gets at once, or as slowly as hold says.
type receiver struct {
	up     *inflow[int]
	got    record
	acked  int64
	hold   time.Duration
	ending chan stage.Ending
}

func (r *receiver) Opened() {}
func (r *receiver) Deliver(b stage.Batch[int]) {
	time.Sleep(r.hold)
	r.got.add(b.Events)
	r.acked += int64(len(b.Events))
	_ = r.up.Ask(int64(len(b.Events)), r.acked)
}
func (r *receiver) Ended(e stage.Ending) { r.ending <- e }

// lab is a node that publishes and one that subscribes, in memory, with no network.
type lab struct {
	t    *testing.T
	a, b *Node
	p    *published[int]
	r    *receiver
	in   *inflow[int]
}

func newLab(t *testing.T, source *stage.Source[int]) *lab {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	l := &lab{t: t, a: New(Config{Name: "a", Logger: quiet}), b: New(Config{Name: "b", Logger: quiet})}
	Publish(l.a, ints, source)
	l.p = l.a.published["numbers"].(*published[int])
	l.r = &receiver{ending: make(chan stage.Ending, 1)}
	terms := stage.Terms{Node: "b", Stage: "sink", MaxDemand: 10, MinDemand: 5, ResumeWindow: 30 * time.Second, Partition: -1}
	about := (&rawClient{stage: "sink"}).about()
	about.ResumeWindow = durationpb.New(terms.ResumeWindow)
	l.in = onlyMember(l.b, terms, l.r, about)
	l.r.up = l.in
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); _ = stage.Run(ctx, source) }()
	t.Cleanup(func() {
		l.p.close()
		l.a.cut(errStopped)
		l.b.cut(errStopped)
		stop()
		<-ran
	})
	return l
}

// outcome is how a stream ended at its consumer, and when.
type outcome struct {
	opened bool
	what   wire.Outcome
	err    error
	after  time.Duration
}

// connect opens a stream, and returns how it ends.
func (l *lab) connect() (*wired, <-chan outcome) {
	p := newPair()
	begin := time.Now()
	l.t.Cleanup(p.cut)
	go p.serve(l.a)
	over := make(chan outcome, 1)
	go func() {
		unanswered := time.AfterFunc(openTimeout, p.cut)
		defer unanswered.Stop()
		opened, what, err := l.in.carry(p.ends[0], consumerSide{wired: p}, publisher{}, unanswered, p.cut)
		over <- outcome{opened, what, err, time.Since(begin)}
	}()
	return p, over
}

func (l *lab) arrived(n int) {
	l.t.Helper()
	synctest.Wait()
	l.r.got.inOrder(l.t, n)
}

// An idle stream lives for days, on one beat an interval each way, and then carries on.
func TestIdleForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		p, over := l.connect()
		require.NoError(t, l.in.Ask(10, 0))
		push(0, 1, 2)
		l.arrived(3)
		before := [2]int64{p.sent[0].Load(), p.sent[1].Load()}
		const days = 3 * 24 * time.Hour
		time.Sleep(days)
		synctest.Wait()
		for way := range before {
			beats := p.sent[way].Load() - before[way]
			require.InDelta(t, int64(days/wire.DefaultHeartbeat), beats, 2)
		}
		push(3, 4)
		l.arrived(5)
		require.Empty(t, over)
	})
}

// A stream on which events flow needs no other sign of life.
func TestNoBeatsWhereEventsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		p, _ := l.connect()
		require.NoError(t, l.in.Ask(10, 0))
		for n := range 100 {
			push(n)
			l.arrived(n + 1)
			time.Sleep(wire.DefaultHeartbeat - 1)
		}
		// Open, which may carry the first Ask, and one for each event; Opened, and the events.
		require.LessOrEqual(t, p.sent[0].Load(), int64(102))
		require.EqualValues(t, 101, p.sent[1].Load())
	})
}

// Whichever direction dies, the end that hears nothing finds it after three beats, cuts,
// and the next stream goes on where this one was: nothing is lost or comes twice.
func TestSilenceIsFound(t *testing.T) {
	for name, test := range map[string]struct{ up, down bool }{
		"towards the producer": {true, false}, "towards the consumer": {false, true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, push := pushed()
				l := newLab(t, source)
				p, over := l.connect()
				require.NoError(t, l.in.Ask(10, 0))
				push(0, 1, 2)
				l.arrived(3)
				time.Sleep(95 * time.Second)
				p.lost[0].Store(test.up)
				p.lost[1].Store(test.down)
				died := time.Now()
				push(3, 4)
				end := <-over
				require.LessOrEqual(t, time.Since(died), wire.Silence(wire.DefaultHeartbeat))
				require.GreaterOrEqual(t, time.Since(died), wire.Silence(wire.DefaultHeartbeat)-wire.DefaultHeartbeat)
				require.Equal(t, wire.Going, end.what)
				if !test.down {
					require.ErrorIs(t, mustFromStatus(t, end.err), wire.RuleSilent)
				}
				_, over = l.connect()
				l.arrived(5)
				push(5)
				l.arrived(6)
				time.Sleep(time.Hour)
				require.Empty(t, over)
			})
		})
	}
}

func mustFromStatus(t *testing.T, err error) *wire.Error {
	t.Helper()
	e, ok := wire.FromStatus(err)
	require.True(t, ok, "%v", err)
	return e
}

// Liveness waits for no handler: while one takes an hour, and the reader with it, both
// ends give signs of life and neither is cut. Nor is a consumer that reads nothing and
// speaks.
func TestSlowIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		l.r.hold = time.Hour
		p, over := l.connect()
		require.NoError(t, l.in.Ask(10, 0))
		push(0)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		require.Zero(t, l.r.got.len())
		require.Len(t, p.down, cap(p.down), "nobody reads, and a beat is held up")
		time.Sleep(40 * time.Minute)
		l.arrived(1)
		require.Empty(t, over)
	})
}

// A peer cannot make an end beat faster than it wants to, and slower only by so much.
func TestHeartbeatIsAgreed(t *testing.T) {
	for name, test := range map[string]struct{ wants, holds time.Duration }{
		"a ns":    {1, wire.DefaultHeartbeat},
		"nothing": {0, wire.DefaultHeartbeat},
		"slower":  {25 * time.Second, 25 * time.Second},
		"a year":  {365 * 24 * time.Hour, wire.MaxHeartbeat},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, _ := pushed()
				l := newLab(t, source)
				l.in.about.Heartbeat = durationpb.New(test.wants)
				p, over := l.connect()
				require.NoError(t, l.in.Ask(10, 0))
				time.Sleep(test.holds*100 + 1)
				synctest.Wait()
				require.InDelta(t, 102, p.sent[0].Load(), 1)
				require.InDelta(t, 101, p.sent[1].Load(), 1)
				died := time.Now()
				p.lost[0].Store(true)
				require.Equal(t, wire.Going, (<-over).what)
				require.LessOrEqual(t, time.Since(died), 3*test.holds)
			})
		})
	}
}

// A process that was stopped for long does not take its own sleep for the silence of
// others: what has come meanwhile is read first.
func TestStoppedProcessJudgesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(10 * time.Second)
		cut := make(chan time.Time, 1)
		begin := time.Now()
		p.judge(func() { cut <- time.Now() })
		p.look = -time.Minute // it was to look a minute ago
		p.waiting()
		require.Equal(t, 40*time.Second, (<-cut).Sub(begin).Round(time.Second))
		p.stop()

		p = newPulse(10 * time.Second)
		p.judge(func() { cut <- time.Now() })
		p.waiting()
		p.stop()
		time.Sleep(time.Hour)
		require.Empty(t, cut)
	})
}
