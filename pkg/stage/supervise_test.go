package stage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicenet/sluice/pkg/stage"
	"github.com/stretchr/testify/require"
)

// play is a runner that does as it is told.
type play func(ctx context.Context) error

func (p play) Run(ctx context.Context) error { return p(ctx) }

// idler is a child that runs until it is stopped.
func idler(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

// cast are children that note when they are made and when they end, and fail when the
// test says so.
type cast struct {
	log[string]
	fail []chan error
}

func newCast(n int) *cast {
	c := &cast{}
	for range n {
		c.fail = append(c.fail, make(chan error))
	}
	return c
}

func (c *cast) children() (all []func() stage.Runner) {
	for i := range c.fail {
		all = append(all, func() stage.Runner {
			c.add(fmt.Sprint("make ", i))
			return play(func(ctx context.Context) error {
				select {
				case err := <-c.fail[i]:
					c.add(fmt.Sprint("end ", i))
					return err
				case <-ctx.Done():
					c.add(fmt.Sprint("stop ", i))
					return context.Cause(ctx)
				}
			})
		})
	}
	return all
}

func (c *cast) since(n int) []string { return c.get()[n:] }

// Who is restarted, and in which order; each begins anew.
func TestStrategies(t *testing.T) {
	f := func(name string, s stage.Strategy, want ...string) {
		bubble(t, name, func(t *testing.T) {
			c := newCast(4)
			sup := stage.Supervise(s, c.children()...)
			var told log[string]
			sup.OnRestart = func(child int, why error) { told.add(fmt.Sprint(child, " ", why)) }
			wait, stop := start(t, sup)
			synctest.Wait()
			require.Equal(t, []string{"make 0", "make 1", "make 2", "make 3"}, c.get())
			c.fail[1] <- errOops
			time.Sleep(time.Second)
			require.Equal(t, want, c.since(5))
			require.Equal(t, []string{"1 oops"}, told.get())
			stop()
			require.ErrorIs(t, wait(), context.Canceled)
		})
	}
	f("one for one", stage.OneForOne, "make 1")
	f("rest for one", stage.RestForOne, "stop 3", "stop 2", "make 1", "make 2", "make 3")
	f("one for all", stage.OneForAll, "stop 3", "stop 2", "stop 0", "make 0", "make 1", "make 2", "make 3")
}

// Children that end well are left alone, and when all have, so has their supervisor;
// without children at once.
func TestChildrenThatEndWell(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		require.NoError(t, stage.Supervise(stage.OneForAll).Run(t.Context()))
		c := newCast(2)
		sup := stage.Supervise(stage.OneForOne, c.children()...)
		wait, _ := start(t, sup)
		c.fail[1] <- nil
		time.Sleep(time.Minute)
		c.fail[0] <- errOops
		time.Sleep(time.Minute)
		c.fail[0] <- nil
		require.NoError(t, wait())
		require.Equal(t, []string{"make 0", "make 1", "end 1", "end 0", "make 0", "end 0"}, c.get())
		require.ErrorIs(t, sup.Run(t.Context()), stage.ErrAlreadyRun)
	})
}

// CSV-12: one restart too many, and all are stopped. Calm forgives.
func TestTooManyRestartsOfChildren(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCast(3)
		sup := stage.Supervise(stage.OneForOne, c.children()...)
		wait, _ := start(t, sup)
		for range 20 {
			c.fail[1] <- errOops
			time.Sleep(2 * time.Second)
		}
		for range 2 { // with two of the last five seconds these are four
			c.fail[2] <- errOops
		}
		err := wait()
		require.ErrorIs(t, err, stage.ErrTooManyRestarts)
		require.ErrorIs(t, err, errOops)
		require.ErrorContains(t, err, "child 2")
		require.Equal(t, []string{"stop 1", "stop 0"}, c.get()[len(c.get())-2:])
	})
}

// What fails within a moment counts as one, and the first in the order is to blame.
func TestChildrenFailTogether(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newCast(3)
		sup := stage.Supervise(stage.RestForOne, c.children()...)
		sup.Tolerance = stage.Tolerance{Restarts: 1}
		var told log[string]
		sup.OnRestart = func(child int, why error) { told.add(fmt.Sprint(child, " ", why)) }
		wait, stop := start(t, sup)
		c.fail[2] <- errors.New("my producer failed")
		time.Sleep(20 * time.Millisecond)
		c.fail[1] <- errors.New("mine too")
		time.Sleep(20 * time.Millisecond)
		c.fail[0] <- errOops
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"0 oops"}, told.get())
		require.Equal(t, []string{"make 0", "make 1", "make 2"}, c.since(6))
		stop()
		require.ErrorIs(t, wait(), context.Canceled)
	})
}

// Children may do what they like, and their functions too: it fails them, they are
// restarted, and nothing else happens.
func TestTroubleInChildren(t *testing.T) {
	for what, trouble := range trouble {
		f := func(where string, child func() stage.Runner) {
			bubble(t, what+" "+where, func(t *testing.T) {
				var whys log[error]
				tries := 0
				sup := stage.Supervise(stage.OneForOne,
					func() stage.Runner { return play(idler) },
					func() stage.Runner {
						if tries++; tries < 3 {
							return child()
						}
						return play(idler)
					})
				sup.OnRestart = func(child int, why error) {
					require.Equal(t, 1, child)
					whys.add(why)
					panic("in OnRestart")
				}
				wait, stop := start(t, sup)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, 3, tries)
				require.Len(t, whys.get(), 2)
				if what == "exit" {
					require.ErrorIs(t, whys.get()[0], stage.ErrExited)
				} else {
					var p *stage.PanicError
					require.ErrorAs(t, whys.get()[0], &p)
				}
				stop()
				require.ErrorIs(t, wait(), context.Canceled)
			})
		}
		f("in the function", func() stage.Runner { trouble.do(); return nil })
		f("in the child", func() stage.Runner {
			return play(func(context.Context) error { trouble.do(); return nil })
		})
		f("in one of several", func() stage.Runner {
			return stage.Group(play(func(context.Context) error { trouble.do(); return errOops }), play(func(context.Context) error { return errOops }))
		})
	}
}

// A function may return an error by way of a panic, and may not return nothing.
func TestFunctionsThatMakeNothing(t *testing.T) {
	for name, child := range map[string]func() stage.Runner{
		"no runner": func() stage.Runner { return nil },
		"panic":     func() stage.Runner { panic(fmt.Errorf("I cannot: %w", errOops)) },
	} {
		bubble(t, name, func(t *testing.T) {
			err := stage.Supervise(stage.OneForAll, func() stage.Runner { return play(idler) }, child).Run(t.Context())
			require.ErrorIs(t, err, stage.ErrTooManyRestarts)
			if name == "panic" {
				require.ErrorIs(t, err, errOops)
			} else {
				require.ErrorContains(t, err, "no runner")
			}
		})
	}
}

// It is stopped at any moment, and leaves nothing behind. What fails meanwhile is
// returned.
func TestStopOfASupervisor(t *testing.T) {
	for after := range 20 {
		bubble(t, fmt.Sprint(after), func(t *testing.T) {
			children := make([]func() stage.Runner, 5)
			for i := range children {
				children[i] = func() stage.Runner {
					return play(func(ctx context.Context) error {
						if i == 1 && !sleepFor(ctx, 5*time.Millisecond) {
							return errOops
						}
						return idler(ctx)
					})
				}
			}
			children[1] = func() stage.Runner {
				return play(func(ctx context.Context) error { sleepFor(ctx, 5*time.Millisecond); return errOops })
			}
			sup := stage.Supervise(stage.RestForOne, children...)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(after*7)*time.Millisecond, errors.New("enough"))
			defer cancel()
			require.Error(t, sup.Run(ctx))
			synctest.Wait()
		})
	}
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		slow := func() stage.Runner {
			return play(func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				return errOops
			})
		}
		polite := func() stage.Runner {
			return play(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		go func() { done <- stage.Supervise(stage.OneForOne, polite, slow).Run(ctx) }()
		synctest.Wait()
		cancel(errors.New("enough"))
		err := <-done
		require.EqualError(t, err, "child 1: oops")
		require.ErrorIs(t, err, errOops)
	})
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
