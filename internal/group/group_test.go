package group

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluicenet/sluice/pkg/stage"
)

// scene drives a Group through seconds of a time of its own.
type scene struct {
	*testing.T
	*Group
	now time.Time
}

var (
	a  = ID{"a", 1}
	a2 = ID{"a", 2}
	b  = ID{"b", 1}
	c  = ID{"c", 1}

	errBoom = errors.New("boom")
)

func newScene(t *testing.T, terms Terms) *scene {
	terms.Window, terms.Settle, terms.Patience, terms.Pause = 30*time.Second, time.Second, 2*time.Second, time.Second
	return &scene{t, New(terms), time.Unix(1000, 0)}
}

func (s *scene) sees(ids ...ID) {
	var all []Publisher
	for _, id := range ids {
		all = append(all, Publisher{ID: id})
	}
	s.See(all)
}

func (s *scene) ends(id ID, how How) {
	d := Departure{ID: id, How: how}
	if how >= Failed {
		d.Err = errBoom
	}
	s.Ended(s.now, d)
}

func (s *scene) after(d time.Duration) Step {
	s.now = s.now.Add(d)
	return s.next()
}

func (s *scene) next() Step {
	step := s.Next(s.now)
	if !step.At.IsZero() {
		require.True(s, step.At.After(s.now), "to ask again at once is no answer")
	}
	return step
}

func (s *scene) joins(ids ...ID) {
	s.Helper()
	step := s.next()
	require.Equal(s, ids, step.Join)
	require.Nil(s, step.Over)
}

// quiet checks that nothing is to be done, also much later.
func (s *scene) quiet() {
	s.Helper()
	for _, d := range []time.Duration{0, time.Hour} {
		step := s.after(d)
		require.Empty(s, step.Join)
		require.Empty(s, step.Leave)
		require.Empty(s, step.Drop)
		require.Nil(s, step.Over)
	}
}

func (s *scene) over(how How) {
	s.Helper()
	step := s.next()
	require.NotNil(s, step.Over)
	require.Equal(s, how, step.Over.How)
	require.Empty(s, step.Join)
	require.Zero(s, s.next(), "that is said once")
}

func (s *scene) open(ids ...ID) {
	s.Helper()
	s.joins(ids...)
	for _, id := range ids {
		s.Opened(id)
	}
}

func TestReasonsAreThoseOfAStage(t *testing.T) {
	for how, reason := range map[How]stage.Reason{
		Completed: stage.Completed, Shutdown: stage.Shutdown, Cancelled: stage.Cancelled,
		Failed: stage.Failed, Refused: stage.Refused, Lost: stage.Lost,
	} {
		require.EqualValues(t, reason, how)
	}
}

func TestFollowsAll(t *testing.T) {
	s := newScene(t, Terms{})
	s.quiet() // it waits without a limit
	s.sees(a)
	s.open(a)
	s.sees(b, a)
	s.open(b)
	s.ends(a, Completed)
	s.quiet()
	s.ends(b, Completed)
	s.over(Completed)
}

func TestAMemberThatFailsLeavesTheRest(t *testing.T) {
	for _, how := range []How{Shutdown, Cancelled, Failed, Refused, Lost} {
		s := newScene(t, Terms{})
		s.sees(a, b)
		s.open(a, b)
		s.ends(a, how)
		s.sees(b)
		s.quiet()
		s.ends(b, Completed)
		s.over(Completed)
	}
}

func TestLostWhenNobodyCameBack(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a, b)
	s.open(a, b)
	s.Broken(s.now, a)
	s.after(5 * time.Second)
	s.Broken(s.now, b)
	s.after(25 * time.Second)
	s.ends(a, Lost)
	require.Nil(t, s.next().Over, "b may come back still")
	s.after(5 * time.Second)
	s.ends(b, Lost)
	s.over(Lost)
}

func TestShutdownIsWaitedFor(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.open(a)
	s.See([]Publisher{{ID: a, Draining: true}})
	s.ends(a, Shutdown)
	require.Nil(t, s.after(20*time.Second).Over)
	s.sees()
	require.Nil(t, s.next().Over)
	s.now = s.now.Add(10 * time.Second)
	s.over(Shutdown)
}

func TestAnOutletThatEndedOnANodeThatStays(t *testing.T) {
	for _, how := range []How{Shutdown, Cancelled, Failed} {
		s := newScene(t, Terms{})
		s.sees(a)
		s.open(a)
		s.See([]Publisher{{ID: a, Ended: true}})
		s.ends(a, how)
		require.Nil(t, s.after(900*time.Millisecond).Over, "its node may be about to leave")
		s.now = s.now.Add(100 * time.Millisecond)
		s.over(how)
	}
}

func TestRestarted(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.open(a)
	s.Broken(s.now, a)
	s.sees(a2)
	step := s.next()
	require.Equal(t, []ID{a2}, step.Join)
	require.Equal(t, []ID{a}, step.Drop)
	s.Opened(a2)
	s.ends(a, Lost)
	s.quiet()
	s.ends(a2, Completed)
	s.over(Completed)
}

func TestExpect(t *testing.T) {
	s := newScene(t, Terms{Expect: 2})
	s.sees(a)
	s.open(a)
	s.ends(a, Completed)
	s.quiet()
	s.sees()
	s.sees(a)
	s.joins(a) // gossip had lost it: it says once more that it has completed
	s.Opened(a)
	s.ends(a, Completed)
	s.quiet()
	s.sees(a2)
	s.open(a2)
	s.ends(a2, Completed)
	s.quiet() // the same node counts once
	s.sees(b)
	s.open(b)
	s.ends(b, Completed)
	s.over(Completed)
}

func TestExpectedOnesThatAreLost(t *testing.T) {
	s := newScene(t, Terms{Expect: 2})
	s.sees(a, b)
	s.open(a, b)
	s.ends(a, Completed)
	s.sees(b)
	s.ends(b, Failed)
	require.Nil(t, s.after(29*time.Second).Over)
	s.now = s.now.Add(time.Second)
	s.over(Failed)
}

func TestRefused(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a, b)
	s.joins(a, b)
	s.ends(a, Refused)
	s.Unready(b)
	s.quiet() // b may take it
	s.ends(b, Refused)
	require.Nil(t, s.after(900*time.Millisecond).Over, "others may be found")
	require.Equal(t, errBoom, s.Last().Err, "and it is said meanwhile")
	s.now = s.now.Add(100 * time.Millisecond)
	s.over(Refused)
}

// More of those that do not fit are nothing to wait for.
func TestRefusedWhileMoreAreExpected(t *testing.T) {
	s := newScene(t, Terms{Expect: 2})
	s.sees(a)
	s.joins(a)
	s.ends(a, Refused)
	s.now = s.now.Add(time.Second)
	s.over(Refused)
}

func TestRefusedByTheFirst(t *testing.T) {
	for _, terms := range []Terms{{}, {One: true}, {Expect: 1}} {
		s := newScene(t, terms)
		s.sees(a)
		s.joins(a)
		s.ends(a, Refused)
		require.Nil(t, s.next().Over)
		s.sees(a, b)
		s.open(b)
		s.quiet()
		s.ends(b, Completed)
		s.over(Completed)
	}
}

func TestRefusedByOneThatIsGone(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.joins(a)
	s.ends(a, Refused)
	s.sees()
	s.quiet()
	s.sees(b)
	s.open(b)
}

// Who was never followed changes nothing for those who were.
func TestRefusedBesideOthers(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.open(a)
	s.ends(a, Shutdown)
	s.sees(b)
	s.joins(b)
	s.ends(b, Refused)
	require.Equal(t, Refused, s.Last().How, "it is said")
	require.Nil(t, s.after(29*time.Second).Over, "a may come back")
	s.now = s.now.Add(time.Second)
	s.over(Shutdown)

	s = newScene(t, Terms{Expect: 2})
	s.sees(a)
	s.open(a)
	s.ends(a, Completed)
	s.sees(b)
	s.joins(b)
	s.ends(b, Refused)
	s.quiet()
	s.sees(c)
	s.open(c)
	s.ends(c, Completed)
	s.over(Completed)
}

// One that has refused after it was followed is a loss as any other, where somebody has
// completed: others are expected, for the window.
func TestRefusedInTheMiddle(t *testing.T) {
	s := newScene(t, Terms{Expect: 2})
	s.sees(a, b)
	s.open(a, b)
	s.ends(a, Completed)
	s.ends(b, Refused)
	require.Nil(t, s.after(29*time.Second).Over)
	s.now = s.now.Add(time.Second)
	s.over(Refused)
}

func TestWhoRestsIsWaitedFor(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a, b)
	s.open(a, b)
	s.ends(b, Lost)
	s.ends(a, Completed)
	require.Nil(t, s.next().Over, "b is joined again in a moment")
	require.Equal(t, []ID{b}, s.after(time.Second).Join)
	s.ends(b, Completed)
	s.over(Completed)
}

func TestWhoLeavesIsNotJoined(t *testing.T) {
	s := newScene(t, Terms{})
	s.See([]Publisher{{ID: a, Draining: true}})
	s.quiet()
	s.See([]Publisher{{ID: a, Draining: true}, {ID: b}})
	s.open(b)
}

func TestWhoIsGoneBeforeItAcceptedIsLeft(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.joins(a)
	s.sees()
	s.quiet() // it may be about to accept
	s.Unready(a)
	require.Equal(t, []ID{a}, s.next().Leave)
	s.ends(a, Cancelled)
	s.quiet()
	s.sees(a)
	s.joins(a)
}

func TestLostAndStillThere(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a, b)
	s.open(a, b)
	s.ends(a, Lost)
	require.Empty(t, s.next().Join)
	require.Equal(t, []ID{a}, s.after(time.Second).Join, "after a pause")
}

func TestLeave(t *testing.T) {
	s := newScene(t, Terms{})
	s.sees(a)
	s.open(a)
	s.Leave()
	s.sees(a, b)
	s.quiet()
	s.ends(a, Cancelled)
	s.over(Cancelled)
}

func TestOneStaysWithOne(t *testing.T) {
	s := newScene(t, Terms{One: true})
	s.sees(b, a)
	s.open(b)
	s.sees(c, a, b) // what is preferred changes, and nothing moves
	s.quiet()
	s.ends(b, Failed)
	s.open(c)
	s.ends(c, Completed)
	s.over(Completed)
}

func TestOneThatDrains(t *testing.T) {
	for _, frame := range []bool{false, true} {
		s := newScene(t, Terms{One: true})
		s.sees(a, b)
		s.open(a)
		if frame {
			s.Draining(a)
		} else {
			s.See([]Publisher{{ID: a, Draining: true}, {ID: b}})
		}
		s.open(b)
		s.quiet() // a ends by itself
		s.ends(a, Shutdown)
		s.quiet()
	}
}

func TestOneThatDrainsAlone(t *testing.T) {
	s := newScene(t, Terms{One: true})
	s.sees(a)
	s.open(a)
	s.Draining(a)
	s.quiet()
	s.sees(a, b)
	s.open(b)
}

func TestOneIsOutOfReach(t *testing.T) {
	s := newScene(t, Terms{One: true})
	s.sees(a, b)
	s.open(a)
	s.Broken(s.now, a)
	step := s.next()
	require.Empty(t, step.Join)
	require.Equal(t, s.now.Add(2*time.Second), step.At)
	require.Equal(t, []ID{b}, s.after(2*time.Second).Join)
	s.Opened(b)
	s.quiet()
	s.Opened(a) // it is back, and one of them is enough
	require.Equal(t, []ID{b}, s.next().Leave)
	s.ends(b, Cancelled)
	s.quiet()

	s = newScene(t, Terms{One: true})
	s.sees(a, b)
	s.open(a)
	s.Broken(s.now, a)
	s.sees(b) // gossip says that it is dead
	s.joins(b)
}

func TestOneTriesTheNext(t *testing.T) {
	s := newScene(t, Terms{One: true})
	s.sees(a, b)
	s.joins(a)
	s.Unready(a)
	step := s.next()
	require.Equal(t, []ID{b}, step.Join)
	require.Equal(t, []ID{a}, step.Leave)
	s.ends(a, Cancelled)
	s.Unready(b)
	require.Empty(t, s.next().Join, "a is left alone for a while")
	step = s.after(time.Second)
	require.Equal(t, []ID{a}, step.Join)
	require.Equal(t, []ID{b}, step.Leave)
}

func TestOneOfThoseThatHaveEnded(t *testing.T) {
	s := newScene(t, Terms{One: true})
	s.See([]Publisher{{ID: b}, {ID: a, Ended: true}})
	s.open(b)
	s = newScene(t, Terms{One: true})
	s.See([]Publisher{{ID: a, Ended: true}, {ID: b, Ended: true}})
	s.open(a)
	s.ends(a, Completed)
	s.over(Completed)
}
