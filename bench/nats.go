package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS drops what a slow consumer does not take. So it is given credits: the consumer
// publishes what it asks for, and the producer sends no more.

func natsServe(ctx context.Context, _ Spec, _ *Meter, ready func(string)) error {
	dir, err := os.MkdirTemp("", "sluice-bench-nats-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true, MaxPayload: 8 << 20})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(5 * time.Second) {
		return errors.New("the NATS server does not start")
	}
	ready(s.ClientURL())
	<-ctx.Done()
	return nil
}

// natsCredits connects, and collects what is asked for.
func natsCredits(s Spec) (*nats.Conn, *credits, error) {
	c, err := nats.Connect(s.Server)
	if err != nil {
		return nil, nil, err
	}
	held := newCredits()
	_, err = c.Subscribe("ask", func(m *nats.Msg) { held.add(int(binary.LittleEndian.Uint32(m.Data))) })
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, held, nil
}

func natsAsk(c *nats.Conn, n int) error {
	return c.Publish("ask", binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

func natsProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	c, held, err := natsCredits(s)
	if err != nil {
		return err
	}
	defer c.Close()
	ready("")
	g := newGenerator(s)
	var buf []byte
	return send(ctx, held, g, s.Batch(), func(n int) error {
		buf = buf[:0]
		for range n {
			at := len(buf)
			buf = append(buf, g.body...)
			g.Put(buf[at:])
			if s.Row == "nats-core-each" {
				if err := c.Publish("events", buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		if s.Row != "nats-core-each" {
			return c.Publish("events", buf)
		}
		return nil
	})
}

func natsConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	c, err := nats.Connect(s.Server)
	if err != nil {
		return err
	}
	defer c.Close()
	demand, check := asker{s.Max, s.Max, s.Min}, Checker{m: m}
	var events [][]byte
	sub, err := c.Subscribe("events", func(msg *nats.Msg) {
		events = events[:0]
		for at := 0; at+s.Size <= len(msg.Data); at += s.Size {
			events = append(events, msg.Data[at:at+s.Size])
		}
		check.took(s, events)
		if n := demand.took(len(events)); n > 0 {
			_ = natsAsk(c, n)
		}
	})
	if err != nil {
		return err
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	ready("")
	if err := natsAsk(c, s.Max); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func jetProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	c, held, err := natsCredits(s)
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c, jetstream.WithPublishAsyncMaxPending(s.Max))
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "EVENTS", Subjects: []string{"jet"}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return err
	}
	ready("")
	g := newGenerator(s)
	return send(ctx, held, g, s.Batch(), func(n int) error {
		for _, e := range g.Make(n) {
			if _, err := js.PublishAsync("jet", e); err != nil {
				return err
			}
		}
		return nil
	})
}

func jetConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	c, err := nats.Connect(s.Server)
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	consumer, err := js.CreateConsumer(ctx, "EVENTS", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: s.Max})
	if err != nil {
		return err
	}
	ready("")
	if err := natsAsk(c, s.Max); err != nil {
		return err
	}
	demand, check := asker{s.Max, s.Max, s.Min}, Checker{m: m}
	events := make([][]byte, 1)
	for ctx.Err() == nil {
		batch, err := consumer.Fetch(s.Batch(), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for msg := range batch.Messages() {
			events[0] = msg.Data()
			check.took(s, events)
			if err := msg.Ack(); err != nil {
				return err
			}
			if n := demand.took(1); n > 0 {
				if err := natsAsk(c, n); err != nil {
					return err
				}
			}
		}
		if err := batch.Error(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("fetch: %w", err)
		}
	}
	return nil
}
