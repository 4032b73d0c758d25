package main

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// The frames of sluice by the standard encoding, with nothing behind them.

type protoServer struct {
	sluicev1.UnimplementedSubscriptionServiceServer
	s Spec
}

func (p protoServer) Subscribe(stream sluicev1.SubscriptionService_SubscribeServer) error {
	held := newCredits()
	go func() {
		for {
			f, err := stream.Recv()
			if err != nil {
				return
			}
			held.add(int(f.GetAsk().GetN()))
		}
	}()
	g := newGenerator(p.s)
	return send(stream.Context(), held, g, p.s.Batch(), func(n int) error {
		b := &sluicev1.Batch{First: int64(g.next), Events: g.Make(n)}
		return stream.Send(&sluicev1.ProducerFrame{Frame: &sluicev1.ProducerFrame_Batch{Batch: b}})
	})
}

func protoProduce(ctx context.Context, s Spec, _ *Meter, ready func(string)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	sluicev1.RegisterSubscriptionServiceServer(server, protoServer{s: s})
	defer context.AfterFunc(ctx, server.Stop)()
	ready(l.Addr().String())
	return server.Serve(l)
}

func protoConsume(ctx context.Context, s Spec, m *Meter, ready func(string)) error {
	conn, err := grpc.NewClient("passthrough:///"+s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	defer conn.Close()
	ready("")
	return each(s.Subs, func(int) error {
		stream, err := sluicev1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
		if err != nil {
			return err
		}
		ask := func(n int) error {
			return stream.Send(&sluicev1.SubscriberFrame{Frame: &sluicev1.SubscriberFrame_Ask{Ask: &sluicev1.Ask{N: int64(n)}}})
		}
		if err := ask(s.Max); err != nil {
			return err
		}
		demand, check := asker{s.Max, s.Max, s.Min}, Checker{m: m}
		for {
			f, err := stream.Recv()
			if err != nil {
				return err
			}
			events := f.GetBatch().GetEvents()
			check.took(s, events)
			if n := demand.took(len(events)); n > 0 {
				if err := ask(n); err != nil {
					return err
				}
			}
		}
	})
}
