package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

func tcpProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	ready(l.Addr().String())
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return ctx.Err()
		}
		all.Go(func() { tcpServe(ctx, s, c) })
	}
}

func tcpServe(ctx context.Context, s Spec, c net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	held := newCredits()
	go func() {
		var ask [4]byte
		r := bufio.NewReader(c)
		for {
			if _, err := io.ReadFull(r, ask[:]); err != nil {
				return
			}
			held.add(int(binary.LittleEndian.Uint32(ask[:])))
		}
	}()
	g := newGenerator(s)
	buf := make([]byte, 0, 4+batchSize(s.Batch(), s.Size))
	_ = send(ctx, held, g, s.Batch(), func(n int) error {
		buf = appendBatch(buf[:4], g.next, n, g)
		binary.LittleEndian.PutUint32(buf, uint32(len(buf)-4))
		_, err := c.Write(buf)
		return err
	})
}

func tcpConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	ready("")
	return each(s.Subs, func(int) error {
		c, err := net.Dial("tcp", s.Address)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		return tcpReceive(s, m, c)
	})
}

func tcpReceive(s Spec, m *Meter, c net.Conn) error {
	ask := func(n int) error {
		_, err := c.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		return err
	}
	if err := ask(s.Max); err != nil {
		return err
	}
	demand := asker{s.Max, s.Max, s.Min}
	check := Checker{m: m}
	r := bufio.NewReaderSize(c, 64<<10)
	var length [4]byte
	var frame []byte
	var events [][]byte
	for {
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint32(length[:]))
		if n > cap(frame) {
			frame = make([]byte, n)
		}
		frame = frame[:n]
		if _, err := io.ReadFull(r, frame); err != nil {
			return err
		}
		var err error
		if events, err = readBatch(frame, events[:0]); err != nil {
			return err
		}
		check.took(s, events)
		if n := demand.took(len(events)); n > 0 {
			if err := ask(n); err != nil {
				return err
			}
		}
	}
}

// took books a batch as the case wants it.
func (k *Checker) took(s Spec, events [][]byte) {
	k.Batch(events)
	if s.Name == "ping" {
		k.Round()
	}
}

// each runs f for every subscription, and returns the first error.
func each(n int, f func(i int) error) error {
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
