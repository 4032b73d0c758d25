package stage

import (
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// ErrorPolicy says what a stage does when its handler returns an error or panics, which
// is the same under every policy. The zero value fails the stage. [Stop] is not an
// error, one that comes because the stage has to end at once is nobody's fault, and
// errors of messages, hooks and selectors fail the stage in any case.
//
// First what the handler had is tried again in place, Retries times: it gets the same
// events once more. Meanwhile the stage takes no other, what arrives waits, and Info says
// that it is retrying. A stage that is stopped, or whose subscription comes to its end,
// waits for no delay: it tries once more, and then does what follows.
//
// What follows, Then says. With [Skip] and [ToDeadLetters] a batch that failed without
// [FailedAt] is split: its events are tried once more, each alone, so that only those go
// that cannot be handled. So handlers see events again, and have to bear it.
type ErrorPolicy struct {
	// Retries is how often the same is tried again before Then follows; default 0.
	Retries int
	// Delay is how long the first retry waits; default 100 ms. Each further one waits
	// about twice as long, with jitter, up to MaxDelay; default 10 s.
	Delay, MaxDelay time.Duration
	// Then is what follows when that has not helped; default Fail.
	Then ErrorAction
}

// ErrorAction is what becomes of events that could not be handled.
type ErrorAction int

const (
	// Fail ends the stage abnormally. What it had not processed goes back to its producer.
	Fail ErrorAction = iota
	// Skip discards the event by the name of DiscardHandler.
	Skip
	// ToDeadLetters sends the event to the stage's DeadLetters. When that has ended, the
	// event is discarded as with Skip.
	ToDeadLetters
)

// FailedAt is returned by a handler that has handled the first i events of its batch,
// and failed with err at the next one: those before it are processed, of a gate also what
// it returns for them, and event i alone counts as tried. i counts from 0; one that is
// not of the batch says nothing, and the whole batch has failed.
func FailedAt(i int, err error) error { return &failedAt{i, err} }

type failedAt struct {
	i   int
	err error
}

// What a batch was is of no meaning outside of the handler.
func (e *failedAt) Error() string { return fmt.Sprint(e.err) }

func (e *failedAt) Unwrap() error { return e.err }

// stopsAt returns the index of the event of n that err is about, if it says so.
func stopsAt(err error, n int) (i int, ok bool) {
	if e := new(failedAt); errors.As(err, &e) && e.i >= 0 && e.i < n {
		return e.i, true
	}
	return 0, n == 1
}

// trial is how one batch is dealt with under a policy: which part of it the handler gets
// next, and what follows from what it says. It does nothing itself.
type trial struct {
	policy ErrorPolicy
	left   int  // events that are not dealt with, at the end of the batch
	size   int  // how many of them the handler gets next
	alone  bool // they are tried one by one: together they have failed
	before int  // how often they have failed together
	failed int  // how often in a row that has failed which the handler gets next
	delays *backoff.ExponentialBackOff
}

func newTrial(p ErrorPolicy, n int) trial { return trial{policy: p, left: n, size: n} }

// next is what to do after a try.
type next int

const (
	proceed next = iota // give the handler what comes next, if anything is left
	wait                // and then give it the same again
	giveUp              // the first event is dealt with otherwise, by giveUp
	fail                // the stage, with size events tried
)

// after draws the conclusions from a try: how many events it has processed, and what to
// do then. With pressed there is no time for another one.
func (t *trial) after(err error, pressed bool) (processed int, n next) {
	if err == nil {
		processed = t.size
		t.advance(processed)
		return processed, proceed
	}
	i, exact := stopsAt(err, t.size)
	if i > 0 {
		t.advance(i)
	}
	if exact {
		t.size = 1
	}
	t.failed++
	switch {
	case t.failed <= t.policy.Retries && !t.alone && !pressed:
		return i, wait
	case t.policy.Then == Fail:
		return i, fail
	case exact:
		return i, giveUp
	}
	t.alone, t.size, t.before, t.failed = true, 1, t.failed, 0
	return i, proceed
}

// advance books that n events are dealt with.
func (t *trial) advance(n int) {
	t.left -= n
	t.size, t.failed, t.delays = t.left, 0, nil
	if t.alone {
		t.size = min(1, t.left)
	}
}

// tries is how often the handler had here what it gets next, and failed.
func (t *trial) tries() int { return t.before + t.failed }

// delay is how long to wait before the next try.
func (t *trial) delay() time.Duration {
	if t.delays == nil {
		b := backoff.NewExponentialBackOff()
		b.Multiplier = 2
		b.InitialInterval, b.MaxInterval = t.policy.Delay, t.policy.MaxDelay
		if b.InitialInterval <= 0 {
			b.InitialInterval = 100 * time.Millisecond
		}
		if b.MaxInterval <= 0 {
			b.MaxInterval = 10 * time.Second
		}
		t.delays = b
	}
	return t.delays.NextBackOff()
}
