package node

import (
	"google.golang.org/protobuf/proto"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// digest is what the node gossips: enough to find it and to know whether its catalog
// is news. It never passes limit, which memberlist answers with a panic: a zone can
// be left out, and names and addresses are bounded by Config.
func (n *Node) digest(limit int) []byte {
	n.mu.Lock()
	d := &sluicev1.Digest{
		Node: n.config.Name, Address: n.address, Zone: n.config.Zone,
		Incarnation: n.incarnation, CatalogVersion: n.version, Draining: n.draining.Load(),
	}
	n.mu.Unlock()
	meta, err := proto.Marshal(d)
	if err == nil && len(meta) > limit {
		n.log.Error("the digest is too long for gossip: the zone is left out", "bytes", len(meta), "limit", limit)
		d.Zone = ""
		meta, err = proto.Marshal(d)
	}
	if err != nil || len(meta) > limit {
		n.log.Error("the node cannot be found: its digest does not fit into gossip", "bytes", len(meta), "limit", limit)
		return nil
	}
	return meta
}

// readDigest reads the digest of another node. It reports false for what is none.
func readDigest(meta []byte) (*sluicev1.Digest, bool) {
	d := new(sluicev1.Digest)
	if err := proto.Unmarshal(meta, d); err != nil || d.GetNode() == "" || d.GetAddress() == "" || d.GetIncarnation() == 0 {
		return nil, false
	}
	return d, true
}
