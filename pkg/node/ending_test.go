package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/sluicenet/sluice/pkg/wire"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// mute is a producer that opens what it is asked to, lives, and answers nothing else.
func mute(opens *int) func(context.Context, *peers, string) (sluicev1.SubscriptionService_SubscribeClient, error) {
	return func(ctx context.Context, _ *peers, _ string) (sluicev1.SubscriptionService_SubscribeClient, error) {
		*opens++
		p := newPair()
		context.AfterFunc(ctx, p.cut)
		go func() {
			side := producerSide{wired: p}
			first, _ := side.Recv()
			answer := opened(1)
			answer.GetOpened().Granted = first.GetOpen().GetGranted()
			_ = side.Send(answer)
			beat := time.NewTicker(wire.DefaultHeartbeat)
			defer beat.Stop()
			for {
				select {
				case <-beat.C:
					_ = side.Send(wire.IdleFrame(0, 0))
				case <-p.up:
				case <-p.ends[1].Done():
					return
				}
			}
		}()
		return consumerSide{wired: p}, nil
	}
}

// A producer that lives and answers no Cancel holds its consumer up for so long: its stage
// is let go after tuning.answer, and after that time once more, nothing is left of the
// subscription.
func TestProducerThatAnswersNoCancel(t *testing.T) {
	for name, drain := range map[string]bool{"drain": true, "failed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, _ := pushed()
				l := newLab(t, source)
				opens := 0
				l.b.tuning.subscribe = mute(&opens)
				over := make(chan struct{})
				go func() { l.in.last(l.b.ctx); close(over) }()
				require.NoError(t, l.in.Ask(10, 0))
				time.Sleep(time.Hour)
				begin := time.Now()
				l.in.Cancel(stage.Cancel[int]{Drain: drain})
				require.Equal(t, stage.Cancelled, (<-l.r.ending).Reason)
				require.LessOrEqual(t, time.Since(begin), openTimeout)
				<-over
				require.LessOrEqual(t, time.Since(begin), 2*openTimeout)
				require.Equal(t, 1, opens, "it is not tried again")
			})
		})
	}
}

// What is received is still processed while a producer does not answer: the drain of a
// stage that takes its time is not cut short.
func TestSlowDrainIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, _ := pushed()
		l := newLab(t, source)
		opens := 0
		l.b.tuning.subscribe = mute(&opens)
		go l.in.last(l.b.ctx)
		require.NoError(t, l.in.Ask(10, 0))
		time.Sleep(time.Second)
		l.in.mu.Lock()
		_, err := l.in.core.Batch(1, 3)
		l.in.mu.Unlock()
		require.NoError(t, err)
		l.in.Cancel(stage.Cancel[int]{Drain: true})
		time.Sleep(time.Hour)
		require.Empty(t, l.r.ending, "three events are being handled")
		require.NoError(t, l.in.Ack(3))
		begin := time.Now()
		<-l.r.ending
		require.LessOrEqual(t, time.Since(begin), 2*openTimeout)
	})
}

// byHand is a consumer in memory that does what it likes.
func (l *lab) byHand() (consumerSide, *wired) {
	p := newPair()
	l.t.Cleanup(p.cut)
	go p.serve(l.a)
	return consumerSide{wired: p}, p
}

// drive opens a session by hand, asks, and reads up to End or the end of the stream,
// while it repeats an Ack of what it has received.
func drive(t *testing.T, c consumerSide, o *sluicev1.Open, ask int64) (got []*sluicev1.ProducerFrame, err error) {
	t.Helper()
	require.NoError(t, c.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}}))
	require.NoError(t, c.Send(askFrame(ask, 0)))
	received := make(chan int64, 100)
	go func() {
		acked := int64(0)
		for {
			select {
			case n := <-received:
				acked += n
			case <-time.After(wire.DefaultHeartbeat):
			case <-c.ends[1].Done():
				return
			}
			_ = c.Send(ackFrame(acked))
		}
	}()
	for {
		f, err := c.Recv()
		if err != nil {
			return got, err
		}
		got = append(got, f)
		received <- int64(len(f.GetBatch().GetEvents()))
	}
}

// A consumer that acknowledges everything and never closes its side loses its stream, and
// after its window nothing is held for it.
func TestConsumerThatNeverCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, numbers(5))
		c, _ := l.byHand()
		begin := time.Now()
		got, err := drive(t, c, (&rawClient{stage: "hand"}).about(), 10)
		require.ErrorIs(t, mustFromStatus(t, err), wire.RuleSilent)
		require.NotNil(t, got[len(got)-1].GetEnd(), "nothing comes after End")
		require.LessOrEqual(t, time.Since(begin), openTimeout+2*wire.DefaultHeartbeat)
		require.Len(t, l.p.sessions(), 1)
		time.Sleep(l.a.window((&rawClient{}).about()))
		synctest.Wait()
		require.Empty(t, l.p.sessions())
	})
}

// A consumer that dies behind End, with events that it has not acknowledged, is found by
// its silence, and after its window the events go to another one.
func TestConsumerThatDiesWhileItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		c, _ := l.byHand()
		o := (&rawClient{stage: "hand"}).about()
		require.NoError(t, c.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}}))
		require.NoError(t, c.Send(askFrame(10, 0)))
		push(0, 1, 2)
		synctest.Wait()
		require.NoError(t, c.Send(cancelFrame(sluicev1.CancelKind_CANCEL_KIND_DRAIN, 0)))
		begin := time.Now()
		for {
			if _, err := c.Recv(); err != nil {
				require.ErrorIs(t, mustFromStatus(t, err), wire.RuleSilent)
				break
			}
		}
		require.Equal(t, wire.Silence(wire.DefaultHeartbeat), time.Since(begin).Round(time.Second))
		time.Sleep(l.a.window(o) + 1)
		l.connect()
		require.NoError(t, l.in.Ask(10, 0))
		synctest.Wait()
		once(t, 3, &l.r.got)
	})
}

// A process that was stopped, and comes back when another start of its node has taken its
// place, is refused by name. Neither its Opens nor the frames on its old stream touch its
// successor, and what it had comes to that one.
func TestZombie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		zombie, old := l.byHand()
		about := func(incarnation, attempt uint64) *sluicev1.Open {
			o := (&rawClient{stage: "hand"}).about()
			o.Incarnation, o.Attempt = incarnation, attempt
			return o
		}
		open := func(c consumerSide, o *sluicev1.Open) {
			require.NoError(t, c.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}}))
		}
		open(zombie, about(1, 1))
		require.NoError(t, zombie.Send(askFrame(2, 0)))
		push(0, 1)
		synctest.Wait()
		require.Len(t, l.p.sessions(), 1)

		successor, _ := l.byHand()
		open(successor, about(2, 1))
		require.NoError(t, successor.Send(askFrame(10, 0)))
		synctest.Wait()
		// The frames that wait in the zombie come late, on the old stream: they are void.
		for _, f := range []*sluicev1.SubscriberFrame{askFrame(1000, 2), ackFrame(7), cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 0)} {
			select {
			case old.up <- f:
			default:
			}
		}
		synctest.Wait()
		for {
			_, err := zombie.Recv()
			if err != nil {
				require.ErrorContains(t, err, "another stream has replaced this one")
				break
			}
		}
		for attempt := uint64(2); attempt < 5; attempt++ {
			again, _ := l.byHand()
			o := about(1, attempt)
			o.Known, o.Granted, o.Received, o.Acked = true, 2, 2, 2
			open(again, o)
			_, err := again.Recv()
			require.ErrorIs(t, mustFromStatus(t, err), wire.RuleStaleOpen)
			require.ErrorContains(t, err, "a later start of the node")
		}
		push(2, 3)
		var got []string
		for len(got) < 4 {
			f, err := successor.Recv()
			require.NoError(t, err)
			for _, e := range f.GetBatch().GetEvents() {
				got = append(got, string(e))
			}
		}
		require.Equal(t, []string{"0", "1", "2", "3"}, got)

		// Back after its window, with nobody in its place, it is told that it is not known.
		require.NoError(t, successor.Send(cancelFrame(sluicev1.CancelKind_CANCEL_KIND_FAILED, 4)))
		successor.cut()
		time.Sleep(l.a.window(about(2, 1)) + 1)
		synctest.Wait()
		require.Empty(t, l.p.sessions())
		late, _ := l.byHand()
		o := about(2, 2)
		o.Known, o.Granted, o.Received = true, 10, 4
		open(late, o)
		_, err := late.Recv()
		require.ErrorIs(t, mustFromStatus(t, err), wire.RuleUnknownSession)
	})
}

// A node whose clock was set back before it started again is let in when its earlier
// self, which looks later, is forgotten: after its window twice at most.
func TestClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, push := pushed()
		l := newLab(t, source)
		before, _ := l.byHand()
		o := (&rawClient{stage: "sink"}).about()
		o.Subscriber.Node, o.Incarnation = "b", l.b.incarnation+1000
		require.NoError(t, before.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Open{Open: o}}))
		require.NoError(t, before.Send(askFrame(10, 0)))
		push(0, 1)
		synctest.Wait()
		before.cut()
		l.in.about.Subscriber.Node = "b"
		begin := time.Now()
		for try := 0; ; try++ {
			_, over := l.connect()
			_ = l.in.Ask(10, 0)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(over) == 0 {
				break
			}
			require.ErrorIs(t, mustFromStatus(t, (<-over).err), wire.RuleStaleOpen)
		}
		require.LessOrEqual(t, time.Since(begin), 2*l.a.window(o)+3*time.Second)
		require.Greater(t, time.Since(begin), l.a.window(o))
		once(t, 2, &l.r.got)
	})
}
