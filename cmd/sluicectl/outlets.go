package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const outletsHelp = `List the outlets that nodes offer. A name that several nodes offer is listed once for
each of them. An outlet that has ended stays listed until its node leaves.

JSON keys:
  outlets      the outlets, one for each node that offers it
  unreachable  the members that did not answer

JSON keys of outlets[]:
  name         its name
  node         the node that offers it
  event_type   the type of its events
  codec        how its events are written
  dispatcher   who gets which event: demand, broadcast or partition
  partitions   how many partitions it has, 0 if its dispatcher has none
  subscribers  how many subscriptions it serves
  ended        true when it has ended
` + unreachableHelp

type outletsAnswer struct {
	Outlets     []outlet      `json:"outlets"`
	Unreachable []unreachable `json:"unreachable"`
}

type outlet struct {
	Name        string `json:"name"`
	Node        string `json:"node"`
	EventType   string `json:"event_type"`
	Codec       string `json:"codec"`
	Dispatcher  string `json:"dispatcher"`
	Partitions  int32  `json:"partitions"`
	Subscribers int32  `json:"subscribers"`
	Ended       bool   `json:"ended"`
}

func (a *app) outlets() *cobra.Command {
	return &cobra.Command{
		Use:   "outlets",
		Short: "List the outlets and who offers them",
		Long:  outletsHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, c sluicev1.AdminServiceClient) (answer, error) {
				return listOutlets(ctx, c)
			})
		},
	}
}

func listOutlets(ctx context.Context, c sluicev1.AdminServiceClient) (outletsAnswer, error) {
	got, err := c.ListOutlets(ctx, &sluicev1.ListOutletsRequest{Scope: sluicev1.Scope_SCOPE_CLUSTER})
	if err != nil {
		return outletsAnswer{}, err
	}
	outlets := make([]outlet, 0, len(got.GetOutlets()))
	for _, o := range got.GetOutlets() {
		outlets = append(outlets, outlet{
			Name:        o.GetName(),
			Node:        o.GetNode(),
			EventType:   o.GetEventType(),
			Codec:       o.GetCodec(),
			Dispatcher:  o.GetDispatcher(),
			Partitions:  o.GetPartitions(),
			Subscribers: o.GetSubscribers(),
			Ended:       o.GetEnded(),
		})
	}
	slices.SortStableFunc(outlets, func(a, b outlet) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return outletsAnswer{Outlets: outlets, Unreachable: unreachables(got.GetUnreachable())}, nil
}

func (a outletsAnswer) missing() []unreachable { return a.Unreachable }

func (a outletsAnswer) table() *table {
	t := newTable(text("OUTLET"), text("NODE"), text("EVENT_TYPE"), text("CODEC"), text("DISPATCHER"),
		number("PARTITIONS"), number("SUBSCRIBERS"), text("ENDED"))
	for _, o := range a.Outlets {
		partitions, ended := "", "no"
		if o.Partitions > 0 {
			partitions = count(o.Partitions)
		}
		if o.Ended {
			ended = "yes"
		}
		t.add(o.Name, o.Node, o.EventType, o.Codec, o.Dispatcher, partitions, count(o.Subscribers), ended)
	}
	return t
}
