package main

// Row is a way to carry events, under the name that stands in the table.
type Row struct {
	parts map[string]Part
	// server says that it needs a server between producer and consumer.
	server bool
}

// roles are the processes that a case takes, in the order of their start.
func (r Row) roles(c Case) []string {
	switch {
	case r.parts["local"] != nil && c.local():
		return []string{"local"}
	case r.server:
		return []string{"serve", "produce", "consume"}
	case c.Name == "three-stages":
		return []string{"produce", "gate", "consume"}
	}
	return []string{"produce", "consume"}
}

func (c Case) local() bool { return c.Name == "local" || c.Name == "local-fan-out-8" }

// rows are all that can be measured. What they share, and where they differ:
//
//   - raw-grpc: grpc-go with the same frames, encoded by hand, and credits; nothing is
//     kept, nothing can be resumed. One goroutine a subscription consumes, and asks.
//   - raw-grpc-kept: the same, with memory for every event at the producer, and for every frame
//     at the consumer, to compare sluice-kept with.
//   - raw-grpc-proto: the same, by the standard protobuf encoding.
//   - raw-tcp: the same frames and credits on a TCP connection a subscription.
//   - sluice: as shipped, resume and acknowledgements included. The source uses its memory
//     again when that can be acknowledged only, and the sink keeps nothing of its events.
//   - sluice-kept: the same, with memory for every event at the source, and such as the sink
//     might keep.
//   - sluice-at-most-once: nothing that was sent goes back.
//   - sluice-auto: the consumer begins with the demand of the case, and sizes it by itself.
//   - nats-core: a message a batch; nats-core-each: a message an event; both with the
//     same credits, since NATS core drops what a slow consumer does not take.
//   - nats-jetstream: memory storage, pull, explicit acknowledgements.
var rows = map[string]Row{
	"raw-grpc":            {parts: map[string]Part{"produce": rawGRPCProduce, "gate": rawGRPCGate, "consume": rawGRPCConsume}},
	"raw-grpc-kept":       {parts: map[string]Part{"produce": rawGRPCProduce, "consume": rawGRPCConsume}},
	"raw-grpc-proto":      {parts: map[string]Part{"produce": protoProduce, "consume": protoConsume}},
	"raw-tcp":             {parts: map[string]Part{"produce": tcpProduce, "consume": tcpConsume}},
	"sluice":              {parts: map[string]Part{"produce": sluiceProduce, "gate": sluiceGate, "consume": sluiceConsume, "local": sluiceLocal}},
	"sluice-kept":         {parts: map[string]Part{"produce": sluiceProduce, "consume": sluiceConsume}},
	"sluice-at-most-once": {parts: map[string]Part{"produce": sluiceProduce, "consume": sluiceConsume}},
	"sluice-auto":         {parts: map[string]Part{"produce": sluiceProduce, "consume": sluiceConsume}},
	"nats-core":           {server: true, parts: map[string]Part{"serve": natsServe, "produce": natsProduce, "consume": natsConsume}},
	"nats-core-each":      {server: true, parts: map[string]Part{"serve": natsServe, "produce": natsProduce, "consume": natsConsume}},
	"nats-jetstream":      {server: true, parts: map[string]Part{"serve": natsServe, "produce": jetProduce, "consume": jetConsume}},
	"channels":            {parts: map[string]Part{"local": channels}},
	"channels-batched":    {parts: map[string]Part{"local": channelsBatched}},
}
