package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const subsHelp = `List the subscriptions, where each of them stands, and why.

Both ends of a subscription know it. GRANTED and SENT are what the producer says,
RECEIVED and ACKED what the consumer says; "-" is a number that only the other end
knows, which has not told. OUTLET is name[partition] where there is one.

STATE is the first of these that holds:
  ended         it is over, and REASON says why
  reconnecting  the connection broke, and is being restored
  draining      the producer leaves, and asks its subscribers to move
  waiting       nobody offers the outlet, or the partition
  opening       the producer has not accepted it yet
  paused        somebody paused it
  held          a gate holds its asks: nobody downstream wants more
  in-flight     the handler is busy with what was received
  wire          events are sent and not yet received
  no-demand     all that was granted is sent: the consumer is the brake
  no-events     more is granted than sent, and nothing buffered: the source is idle
  flowing       none of these

JSON keys:
  subscriptions  the subscriptions, both sides of each in one object
  unreachable    the members that did not answer

JSON keys of subscriptions[]:
  outlet          the outlet
  producer_node   the node that offers it, "" while nobody does
  consumer_node   the node that has subscribed
  consumer_stage  the stage that has subscribed
  partition       the partition, null if there is none
  sides           who told: producer, consumer, both; or local, for both ends are in
                  one process
  state           as above
  max_demand      the most events to be open; 9223372036854775807 is unbounded
  min_demand      how few must be open before it asks again
  granted         events asked for in all; 9223372036854775807 is unbounded
  sent            events sent, null if unknown
  received        events received, null if unknown
  acked           events processed
  age_seconds     how long it has been in its state, null if unknown
  reason          why it ended, or what automatic demand goes by; "" for neither
` + unreachableHelp

type subsAnswer struct {
	Subscriptions []subscription `json:"subscriptions"`
	Unreachable   []unreachable  `json:"unreachable"`
}

type subscription struct {
	Outlet        string   `json:"outlet"`
	ProducerNode  string   `json:"producer_node"`
	ConsumerNode  string   `json:"consumer_node"`
	ConsumerStage string   `json:"consumer_stage"`
	Partition     *int32   `json:"partition"`
	Sides         []string `json:"sides"`
	State         string   `json:"state"`
	MaxDemand     int64    `json:"max_demand"`
	MinDemand     int64    `json:"min_demand"`
	Granted       int64    `json:"granted"`
	Sent          *int64   `json:"sent"`
	Received      *int64   `json:"received"`
	Acked         int64    `json:"acked"`
	AgeSeconds    *float64 `json:"age_seconds"`
	Reason        string   `json:"reason"`
}

func (a *app) subs() *cobra.Command {
	return &cobra.Command{
		Use:        "subs",
		Short:      "List the subscriptions, where each stands and why",
		Long:       subsHelp,
		SuggestFor: []string{"subscriptions", "edges"},
		Args:       noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, c sluicev1.AdminServiceClient) (answer, error) {
				return listSubs(ctx, c)
			})
		},
	}
}

func listSubs(ctx context.Context, c sluicev1.AdminServiceClient) (subsAnswer, error) {
	got, err := c.ListSubscriptions(ctx, &sluicev1.ListSubscriptionsRequest{Scope: sluicev1.Scope_SCOPE_CLUSTER})
	if err != nil {
		return subsAnswer{}, err
	}
	subs := join(got.GetSubscriptions())
	slices.SortStableFunc(subs, func(a, b subscription) int {
		return cmp.Or(
			cmp.Compare(a.Outlet, b.Outlet),
			comparePartitions(a.Partition, b.Partition),
			cmp.Compare(a.ProducerNode, b.ProducerNode),
			cmp.Compare(a.ConsumerStage, b.ConsumerStage),
			cmp.Compare(a.ConsumerNode, b.ConsumerNode),
		)
	})
	return subsAnswer{Subscriptions: subs, Unreachable: unreachables(got.GetUnreachable())}, nil
}

func comparePartitions(a, b *int32) int {
	if a == nil || b == nil {
		switch {
		case a != nil:
			return 1
		case b != nil:
			return -1
		}
		return 0
	}
	return cmp.Compare(*a, *b)
}

func (a subsAnswer) missing() []unreachable { return a.Unreachable }

func (a subsAnswer) table() *table {
	t := newTable(text("OUTLET"), text("PRODUCER"), text("CONSUMER"), text("STATE"), number("DEMAND"),
		number("GRANTED"), number("SENT"), number("RECEIVED"), number("ACKED"), number("AGE"), text("REASON"))
	for _, s := range a.Subscriptions {
		outlet := s.Outlet
		if s.Partition != nil {
			outlet = fmt.Sprintf("%s[%d]", s.Outlet, *s.Partition)
		}
		demand := "unbounded"
		if s.MaxDemand != math.MaxInt64 {
			demand = fmt.Sprintf("%d/%d", s.MaxDemand, s.MinDemand)
		}
		t.add(outlet, s.ProducerNode, known(s.ConsumerStage)+"@"+known(s.ConsumerNode), s.State, demand,
			count(s.Granted), maybe(s.Sent), maybe(s.Received), count(s.Acked), age(s.AgeSeconds), s.Reason)
	}
	return t
}
