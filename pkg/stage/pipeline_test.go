package stage_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// pipeline is a source, a gate and workers that find each other by name. Each is
// made anew with every restart.
type pipeline struct {
	names stage.Names
	fail  chan error // the source fails with it
	made  log[string]
	got   log[[]int] // since which restart
	src   *stage.Source[int]
}

func (p *pipeline) source() stage.Runner {
	p.made.add("source")
	p.got.add(nil)
	next := 0
	p.src = stage.NewSource(func(ctx context.Context, demand int) ([]int, error) {
		if next >= 20 {
			select {
			case err := <-p.fail:
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		n := min(demand, 20-next)
		next += n
		return upTo(next-n, next), nil
	})
	p.src.Name = "source"
	p.register(stage.Register(&p.names, p.src))
	return p.src
}

func (p *pipeline) gate() stage.Runner {
	p.made.add("gate")
	g := stage.NewGate(stage.Map(double))
	g.Name = "gate"
	stage.Connect(stage.Named[int](&p.names, "source"), g, stage.MaxDemand(4))
	p.register(stage.Register(&p.names, g))
	return g
}

func (p *pipeline) sink() stage.Runner {
	p.made.add("sink")
	s := stage.NewPool(1, func(_ context.Context, e int) error {
		p.got.mu.Lock()
		defer p.got.mu.Unlock()
		last := &p.got.all[len(p.got.all)-1]
		*last = append(*last, e)
		return nil
	})
	stage.Connect(stage.Named[int](&p.names, "gate"), s)
	return s
}

func (p *pipeline) register(err error) {
	if err != nil {
		panic(err)
	}
}

func doubles(n int) (all []int) {
	for i := range n {
		all = append(all, 2*i)
	}
	return all
}

// SUP-01, SUP-03 and SUP-04: a pipeline by names. When its source fails, all are
// restarted in order, subscribe anew by name, and the flow begins from fresh state.
// SUP-08: who comes before its producer finds it too.
func TestSupervisedPipeline(t *testing.T) {
	f := func(name string, s stage.Strategy, children func(p *pipeline) []func() stage.Runner, order ...string) {
		bubble(t, name, func(t *testing.T) {
			p := &pipeline{fail: make(chan error)}
			sup := stage.Supervise(s, children(p)...)
			wait, stop := start(t, sup)
			var want []string
			for round := range 3 {
				time.Sleep(time.Second)
				synctest.Wait()
				want = append(want, order...)
				require.Equal(t, want, p.made.get())
				require.Len(t, p.got.get(), round+1)
				require.Equal(t, doubles(20), p.got.get()[round])
				require.Len(t, p.src.Inspect().Subscribers, 1, "the name is the new one's")
				p.fail <- errOops
			}
			time.Sleep(time.Second)
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
	f("rest for one", stage.RestForOne, func(p *pipeline) []func() stage.Runner {
		return []func() stage.Runner{p.source, p.gate, p.sink}
	}, "source", "gate", "sink")
	f("one for all, in reverse", stage.OneForAll, func(p *pipeline) []func() stage.Runner {
		return []func() stage.Runner{p.sink, p.gate, p.source}
	}, "sink", "gate", "source")
	f("one child", stage.OneForOne, func(p *pipeline) []func() stage.Runner {
		return []func() stage.Runner{func() stage.Runner { return stage.Group(p.source(), p.gate(), p.sink()) }}
	}, "source", "gate", "sink")
}

// SUP-09: one for one, the consumers fail with their producer, each restart counts, and
// the tree gives up; or a consumer is temporary, and lives on (SUP-11).
func TestOneForOneIsNotForPipelines(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := &pipeline{fail: make(chan error)}
		sup := stage.Supervise(stage.OneForOne, p.source, p.gate, p.sink, func() stage.Runner {
			s, _ := keeper()
			stage.Connect(stage.Named[int](&p.names, "source"), s)
			return s
		})
		wait, _ := start(t, sup)
		p.fail <- errOops
		require.ErrorIs(t, wait(), stage.ErrTooManyRestarts)
	})
	bubble(t, "temporary", func(t *testing.T) {
		p := &pipeline{fail: make(chan error)}
		sink, got := keeper()
		connect := func() *stage.Subscription {
			sub, err := stage.Subscribe(t.Context(), stage.Named[int](&p.names, "source"), sink, stage.Temporary)
			require.NoError(t, err)
			return sub
		}
		sup := stage.Supervise(stage.OneForOne, p.source, func() stage.Runner { return sink })
		wait, stop := start(t, sup)
		synctest.Wait()
		sub := connect()
		p.fail <- errOops
		<-sub.Done()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, stage.Failed, sub.Ending().Reason)
		require.ErrorIs(t, sub.Ask(1), stage.ErrEnded) // SUP-06
		require.False(t, sub.Cancel())
		connect()
		synctest.Wait()
		require.Equal(t, append(upTo(0, 20), upTo(0, 20)...), got.get())
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// SUP-08: a consumer whose producer is not there fails, and the restart is how it comes
// to it.
func TestConsumerBeforeItsProducer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := &pipeline{fail: make(chan error)}
		var whys log[error]
		sup := stage.Supervise(stage.OneForOne, func() stage.Runner { return stage.Group(p.gate(), p.sink()) })
		sup.OnRestart = func(_ int, why error) {
			whys.add(why)
			p.source() // somebody takes the name
		}
		wait, stop := start(t, sup)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, whys.get(), 1)
		require.ErrorIs(t, whys.get()[0], stage.ErrNoSuchName)
		srcWait, stopSrc := start(t, p.src)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, doubles(20), p.got.get()[0])
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		stopSrc()
		require.ErrorIs(t, srcWait(), context.Canceled)
	})
}

// A supervised pipeline that is stopped drains as one: what its source has produced is
// handled, through all children, also below another supervisor.
func TestStopOfASupervisedPipeline(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var names stage.Names
		var got log[int]
		var src *stage.Source[int]
		source := func() stage.Runner {
			next := 0
			src = stage.NewSource(func(_ context.Context, n int) ([]int, error) {
				next += 3 * n // more than it was asked for
				return upTo(next-3*n, next), nil
			})
			src.Name, src.Buffer = "source", stage.Unlimited()
			require.NoError(t, stage.Register(&names, src))
			return src
		}
		gate := func() stage.Runner {
			g := stage.NewGate(func(_ context.Context, events []int) ([]int, error) {
				time.Sleep(time.Millisecond)
				return events, nil
			})
			g.Name = "gate"
			require.NoError(t, stage.Register(&names, g))
			stage.Connect(stage.Named[int](&names, "source"), g, stage.MaxDemand(30))
			return g
		}
		sink := func() stage.Runner {
			s := stage.NewSink(func(_ context.Context, events []int) error {
				time.Sleep(3 * time.Millisecond)
				got.add(events...)
				return nil
			})
			stage.Connect(stage.Named[int](&names, "gate"), s, stage.MaxDemand(10))
			return s
		}
		sup := stage.Supervise(stage.RestForOne, source, func() stage.Runner {
			return stage.Supervise(stage.RestForOne, gate, sink)
		})
		wait, stop := start(t, sup)
		time.Sleep(100 * time.Millisecond)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
		i := src.Inspect()
		require.Empty(t, i.Discarded)
		require.Greater(t, i.Out, int64(30))
		require.Equal(t, upTo(0, int(i.Out)), got.get())
	})
}

// What is only restarted does not wait for producers that go on.
func TestRestartDoesNotWaitForProducers(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := &pipeline{fail: make(chan error)}
		fail := make(chan error)
		sup := stage.Supervise(stage.OneForAll, p.source, p.gate, p.sink,
			func() stage.Runner {
				return play(func(ctx context.Context) error {
					select {
					case err := <-fail:
						return err
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			})
		wait, stop := start(t, sup)
		time.Sleep(time.Second)
		begin := time.Now()
		fail <- errOops
		for len(p.made.get()) < 6 {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(begin), 100*time.Millisecond)
		time.Sleep(time.Second)
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}
