package wire

import (
	"fmt"

	"github.com/sluicenet/sluice/internal/credit"
)

// lawOfProducer reports how the law of positions is broken.
func lawOfProducer(p *Producer) error {
	room := min(p.granted, credit.Add(p.acked, p.maxUnacked))
	switch {
	case p.acked < 0 || p.acked > p.sent || p.sent > p.allotted:
		return fmt.Errorf("acked %d, sent %d, allotted %d", p.acked, p.sent, p.allotted)
	case p.allotted > room && !p.settled():
		return fmt.Errorf("allotted %d of %d", p.allotted, room)
	case p.next < p.acked+1 || p.next > p.sent+1:
		return fmt.Errorf("acked %d, next %d, sent %d", p.acked, p.next, p.sent)
	case p.done.Count() > 0 && (p.done.All()[0].First <= p.acked || p.done.Count() > p.sent-p.acked):
		return fmt.Errorf("acked %d, done %v, sent %d", p.acked, p.done.All(), p.sent)
	}
	return nil
}

// lawOfConsumer reports how the law of positions is broken.
func lawOfConsumer(c *Consumer) error {
	switch {
	case c.acked < 0 || c.acked > c.received || c.received > c.granted:
		return fmt.Errorf("acked %d, received %d, granted %d", c.acked, c.received, c.granted)
	case c.on.open && (c.received > c.on.granted || c.on.granted > c.granted):
		return fmt.Errorf("received %d, said %d, granted %d", c.received, c.on.granted, c.granted)
	case c.on.acked > c.acked:
		return fmt.Errorf("said acked %d of %d", c.on.acked, c.acked)
	case !credit.Check(c.done.All(), c.acked, c.received):
		return fmt.Errorf("acked %d, done %v, received %d", c.acked, c.done.All(), c.received)
	case !credit.Check(c.on.untold.All(), c.acked, c.received) || c.on.untold.Count() > c.done.Count():
		return fmt.Errorf("acked %d, done %v, untold %v", c.acked, c.done.All(), c.on.untold.All())
	}
	return nil
}
