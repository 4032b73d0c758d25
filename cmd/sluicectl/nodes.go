package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const nodesHelp = `List the nodes of the cluster, as the node that is asked sees them. Nodes that left,
and nodes that are called dead, are listed for as long as they are remembered.

JSON keys:
  nodes        the members of the cluster
  unreachable  the members that did not answer

JSON keys of nodes[]:
  name            its logical name
  state           alive, suspect (a member that does not answer), draining, dead,
                  left, or conflict (another living node has its name)
  grpc_address    where it takes subscriptions and questions
  gossip_address  where it gossips
  zone            its zone, "" if it has none
  incarnation     grows with every start of the node
  version         what it was built from, "" if unknown
  stages          how many stages it runs, null if unknown
  outlets         how many outlets it offers, null if unknown
  uptime_seconds  how long it runs, null if unknown
  refused         what it did not let others do, by rule: how often
  error           what is wrong with it, "" if nothing is
` + unreachableHelp

type nodesAnswer struct {
	Nodes       []node        `json:"nodes"`
	Unreachable []unreachable `json:"unreachable"`
}

type node struct {
	Name          string           `json:"name"`
	State         string           `json:"state"`
	GRPCAddress   string           `json:"grpc_address"`
	GossipAddress string           `json:"gossip_address"`
	Zone          string           `json:"zone"`
	Incarnation   uint64           `json:"incarnation"`
	Version       string           `json:"version"`
	Stages        *int32           `json:"stages"`
	Outlets       *int32           `json:"outlets"`
	UptimeSeconds *float64         `json:"uptime_seconds"`
	Refused       map[string]int64 `json:"refused"`
	Error         string           `json:"error"`
}

func (a *app) nodes() *cobra.Command {
	return &cobra.Command{
		Use:        "nodes",
		Short:      "List the nodes of the cluster",
		Long:       nodesHelp,
		SuggestFor: []string{"members"},
		Args:       noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, c sluicev1.AdminServiceClient) (answer, error) {
				return listNodes(ctx, c)
			})
		},
	}
}

func listNodes(ctx context.Context, c sluicev1.AdminServiceClient) (nodesAnswer, error) {
	got, err := c.ListNodes(ctx, &sluicev1.ListNodesRequest{Scope: sluicev1.Scope_SCOPE_CLUSTER})
	if err != nil {
		return nodesAnswer{}, err
	}
	nodes := make([]node, 0, len(got.GetNodes()))
	for _, n := range got.GetNodes() {
		nodes = append(nodes, newNode(n))
	}
	slices.SortStableFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.GRPCAddress, b.GRPCAddress))
	})
	return nodesAnswer{Nodes: nodes, Unreachable: unreachables(got.GetUnreachable())}, nil
}

func newNode(n *sluicev1.NodeInfo) node {
	to := node{
		Name:          n.GetName(),
		State:         word(n.GetState(), "NODE_STATE_"),
		GRPCAddress:   n.GetGrpcAddress(),
		GossipAddress: n.GetGossipAddress(),
		Zone:          n.GetZone(),
		Incarnation:   n.GetIncarnation(),
		Version:       n.GetVersion(),
		UptimeSeconds: seconds(n.GetUptime()),
		Refused:       map[string]int64{},
		Error:         n.GetError(),
	}
	maps.Copy(to.Refused, n.GetRefused())
	// A node that has not said how long it runs has not answered: its zeros are
	// no numbers.
	stages, outlets := n.GetStages(), n.GetOutlets()
	if n.GetUptime() != nil || stages != 0 || outlets != 0 {
		to.Stages, to.Outlets = &stages, &outlets
	}
	return to
}

func (a nodesAnswer) missing() []unreachable { return a.Unreachable }

func (a nodesAnswer) table() *table {
	t := newTable(text("NODE"), text("STATE"), text("GRPC"), text("GOSSIP"), text("ZONE"), text("VERSION"),
		number("STAGES"), number("OUTLETS"), number("UPTIME"), text("REFUSED"), text("ERROR"))
	for _, n := range a.Nodes {
		t.add(n.Name, n.State, n.GRPCAddress, n.GossipAddress, n.Zone, n.Version,
			maybe(n.Stages), maybe(n.Outlets), age(n.UptimeSeconds), discards(n.Refused), n.Error)
	}
	return t
}
