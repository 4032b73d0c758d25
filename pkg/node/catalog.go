package node

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/sluicenet/sluice/internal/registry"
	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// catalogs answers other nodes who ask what this one offers.
type catalogs struct {
	sluicev1.UnimplementedCatalogServiceServer
	n *Node
}

func (c *catalogs) GetCatalog(context.Context, *sluicev1.GetCatalogRequest) (*sluicev1.GetCatalogResponse, error) {
	own := c.n.catalog()
	reply := &sluicev1.Catalog{Node: own.Node, Incarnation: own.Incarnation, Version: own.Version}
	for _, o := range own.Outlets {
		reply.Outlets = append(reply.Outlets, &sluicev1.OfferedOutlet{
			Name: o.Name, EventType: o.EventType, Codec: o.Codec,
			Dispatcher: o.Dispatcher, Partitions: int32(o.Partitions), Ended: o.Ended,
		})
	}
	return &sluicev1.GetCatalogResponse{Catalog: reply}, nil
}

// largeAnswer is for calls whose answer grows with what a node offers.
var largeAnswer = grpc.MaxCallRecvMsgSize(maxCatalog)

// fetchCatalog asks the node at an address what it offers. What that may not publish is
// left out.
func (n *Node) fetchCatalog(ctx context.Context, address string) (registry.Catalog, error) {
	conn, done, err := n.peers.dial(address)
	if err != nil {
		return registry.Catalog{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	var from peer.Peer
	reply, err := sluicev1.NewCatalogServiceClient(conn).GetCatalog(ctx, &sluicev1.GetCatalogRequest{}, largeAnswer, grpc.Peer(&from))
	if err != nil {
		return registry.Catalog{}, err
	}
	got := reply.GetCatalog()
	c := registry.Catalog{Node: got.GetNode(), Incarnation: got.GetIncarnation(), Version: got.GetVersion()}
	for _, o := range got.GetOutlets() {
		if n.checkPublish(&from, o.GetName()) != nil {
			continue // it is said
		}
		c.Outlets = append(c.Outlets, registry.Outlet{
			Name: o.GetName(), EventType: o.GetEventType(), Codec: o.GetCodec(),
			Dispatcher: o.GetDispatcher(), Partitions: int(o.GetPartitions()), Ended: o.GetEnded(),
		})
	}
	return c, nil
}
