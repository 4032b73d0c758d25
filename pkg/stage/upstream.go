package stage

import (
	"fmt"
)

// upstream is a subscription to an outlet of this process, as its consumer holds
// it.
type upstream[T any] struct {
	o   *outlet[T]
	sub *outflow[T]
}

func (u *upstream[T]) Ask(n, acked int64, done ...Range) (err error) {
	u.o.lock()
	defer u.o.unlock(&err)
	return u.guard(u.o.core.ask(u.sub, n, acked, done))
}

func (u *upstream[T]) Ack(acked int64, done ...Range) (err error) {
	u.o.lock()
	defer u.o.unlock(&err)
	return u.guard(u.o.core.ack(u.sub, acked, done))
}

// guard ends a subscription whose consumer broke a rule.
func (u *upstream[T]) guard(err error) error {
	if err != nil {
		u.o.core.refuse(u.sub, err)
	}
	return err
}

func (u *upstream[T]) Cancel(c Cancel[T]) {
	u.o.lock()
	defer u.o.unlock(nil)
	if u.guard(u.o.core.book(u.sub, c.Acked, c.Done)) != nil {
		return
	}
	ending := Ending{Reason: Cancelled}
	if c.Reason != "" {
		ending.Err = fmt.Errorf("cancelled: %s", c.Reason)
	}
	if c.Drain {
		u.o.core.leave(u.sub, ending)
	} else {
		u.o.core.fail(u.sub, ending, c.Rest)
	}
}

func (u *upstream[T]) Revoke() int64 {
	u.o.lock()
	defer u.o.unlock(nil)
	return u.o.core.revoke(u.sub)
}

func (u *upstream[T]) Discard(n int, reason string) {
	u.o.lock()
	defer u.o.unlock(nil)
	u.o.core.giveUp(u.sub, n, reason)
}
