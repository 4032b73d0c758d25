package main

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// rawFrame is a message whose bytes are made and read by hand.
type rawFrame struct {
	out mem.BufferSlice // to send
	in  mem.Buffer      // received; to be freed
}

// messages are what both ends of a stream can do.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// rawCodec leaves frames as they are. With kept they have memory of their own when they
// arrive.
type rawCodec struct{ kept bool }

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) { return v.(*rawFrame).out, nil }

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if c.kept {
		v.(*rawFrame).in = mem.SliceBuffer(data.Materialize())
	} else {
		v.(*rawFrame).in = data.MaterializeToBuffer(mem.DefaultBufferPool())
	}
	return nil
}

// kept says that a row makes memory for its events, like sluice-kept.
func (s Spec) kept() bool { return s.Row == "raw-grpc-kept" || s.Row == "sluice-kept" }

var rawService = grpc.ServiceDesc{
	ServiceName: "bench.Raw", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Subscribe", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(func(grpc.ServerStream) error)(stream) },
	}},
}

// rawServe serves until ctx ends.
func rawServe(ctx context.Context, ready func(string), handle func(grpc.ServerStream) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(64<<20))
	server.RegisterService(&rawService, handle)
	defer context.AfterFunc(ctx, server.Stop)()
	ready(l.Addr().String())
	return server.Serve(l)
}

func rawDial(s Spec) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{s.kept()}), grpc.MaxCallRecvMsgSize(64<<20)))
}

// rawSend sends a frame of n events, which have memory of their own if they are kept.
func rawSend(stream messages, n int, g *Generator, kept bool) error {
	buf := mem.DefaultBufferPool().Get(batchSize(n, g.size))
	if kept {
		*buf = appendEvents((*buf)[:0], g.next, g.Make(n))
	} else {
		*buf = appendBatch((*buf)[:0], g.next, n, g)
	}
	return stream.SendMsg(&rawFrame{out: mem.BufferSlice{mem.NewBuffer(buf, mem.DefaultBufferPool())}})
}

func rawAsk(stream messages, n int) error {
	frame := protowire.AppendVarint(append([]byte(nil), firstTag...), uint64(n))
	return stream.SendMsg(&rawFrame{out: mem.BufferSlice{mem.SliceBuffer(frame)}})
}

// rawAsks books what a consumer asks for, until its stream ends.
func rawAsks(stream messages, held *credits) {
	for {
		var f rawFrame
		if err := stream.RecvMsg(&f); err != nil {
			return
		}
		n, _ := protowire.ConsumeVarint(f.in.ReadOnlyData()[1:])
		f.in.Free()
		held.add(int(n))
	}
}

func rawGRPCProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	return rawServe(ctx, ready, func(stream grpc.ServerStream) error {
		held := newCredits()
		go rawAsks(stream, held)
		g := newGenerator(s)
		return send(stream.Context(), held, g, s.Batch(), func(n int) error { return rawSend(stream, n, g, s.kept()) })
	})
}

// rawReceive takes batches, and asks for more when take has returned.
func rawReceive(ctx context.Context, s Spec, conn *grpc.ClientConn, take func([][]byte) error) error {
	stream, err := conn.NewStream(ctx, &rawService.Streams[0], "/bench.Raw/Subscribe")
	if err != nil {
		return err
	}
	if err := rawAsk(stream, s.Max); err != nil {
		return err
	}
	demand := asker{s.Max, s.Max, s.Min}
	var events [][]byte
	for {
		var f rawFrame
		if err := stream.RecvMsg(&f); err != nil {
			return err
		}
		if events, err = readBatch(f.in.ReadOnlyData(), events[:0]); err != nil {
			return err
		}
		if err := take(events); err != nil {
			return err
		}
		n := len(events)
		f.in.Free()
		if n := demand.took(n); n > 0 {
			if err := rawAsk(stream, n); err != nil {
				return err
			}
		}
	}
}

func rawGRPCConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	conn, err := rawDial(s)
	if err != nil {
		return err
	}
	defer conn.Close()
	ready("")
	return each(s.Subs, func(int) error {
		check := Checker{m: m}
		return rawReceive(ctx, s, conn, func(events [][]byte) error {
			check.took(s, events)
			return nil
		})
	})
}

// rawGRPCGate passes events on: it takes a batch when the next one has room for it.
func rawGRPCGate(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	conn, err := rawDial(s)
	if err != nil {
		return err
	}
	defer conn.Close()
	return rawServe(ctx, ready, func(stream grpc.ServerStream) error {
		held := newCredits()
		go rawAsks(stream, held)
		err := rawReceive(stream.Context(), s, conn, func(events [][]byte) error {
			for len(events) > 0 {
				n, err := held.take(stream.Context(), len(events))
				if err != nil {
					return err
				}
				buf := mem.DefaultBufferPool().Get(batchSize(n, s.Size))
				out := append((*buf)[:0], firstTag...)
				out = protowire.AppendVarint(out, 1)
				for _, e := range events[:n] {
					out = protowire.AppendBytes(append(out, eventTag...), e)
				}
				*buf = out
				if err := stream.SendMsg(&rawFrame{out: mem.BufferSlice{mem.NewBuffer(buf, mem.DefaultBufferPool())}}); err != nil {
					return err
				}
				events = events[n:]
			}
			return nil
		})
		return fmt.Errorf("gate: %w", err)
	})
}
