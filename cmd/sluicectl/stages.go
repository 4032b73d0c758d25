package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const stagesHelp = `List the stages, what went through them, and what they discarded. Nothing is discarded
in silence: DISCARDED counts it all, by reason.

JSON keys:
  stages       the stages, one for each node that runs it
  unreachable  the members that did not answer

JSON keys of stages[]:
  name          its name
  node          the node that runs it
  kind          source, gate or sink
  state         ready, running, ending, ended or failed
  events_in     events taken in and processed
  events_out    events given out
  buffered      events that wait in its buffer
  unmet_demand  demand that it has not met; 9223372036854775807 is unbounded
  discarded     how many events it discarded, by reason; {} if none
  error         why it failed, "" if it did not
` + unreachableHelp

type stagesAnswer struct {
	Stages      []stage       `json:"stages"`
	Unreachable []unreachable `json:"unreachable"`
}

type stage struct {
	Name        string           `json:"name"`
	Node        string           `json:"node"`
	Kind        string           `json:"kind"`
	State       string           `json:"state"`
	EventsIn    int64            `json:"events_in"`
	EventsOut   int64            `json:"events_out"`
	Buffered    int64            `json:"buffered"`
	UnmetDemand int64            `json:"unmet_demand"`
	Discarded   map[string]int64 `json:"discarded"`
	Error       string           `json:"error"`
}

func (a *app) stages() *cobra.Command {
	return &cobra.Command{
		Use:   "stages",
		Short: "List the stages and what went through them",
		Long:  stagesHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, c sluicev1.AdminServiceClient) (answer, error) {
				return listStages(ctx, c)
			})
		},
	}
}

func listStages(ctx context.Context, c sluicev1.AdminServiceClient) (stagesAnswer, error) {
	got, err := c.ListStages(ctx, &sluicev1.ListStagesRequest{Scope: sluicev1.Scope_SCOPE_CLUSTER})
	if err != nil {
		return stagesAnswer{}, err
	}
	stages := make([]stage, 0, len(got.GetStages()))
	for _, s := range got.GetStages() {
		to := stage{
			Name:        s.GetName(),
			Node:        s.GetNode(),
			Kind:        s.GetKind(),
			State:       s.GetState(),
			EventsIn:    s.GetEventsIn(),
			EventsOut:   s.GetEventsOut(),
			Buffered:    s.GetBuffered(),
			UnmetDemand: s.GetUnmetDemand(),
			Discarded:   map[string]int64{},
			Error:       s.GetError(),
		}
		maps.Copy(to.Discarded, s.GetDiscarded())
		stages = append(stages, to)
	}
	slices.SortStableFunc(stages, func(a, b stage) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return stagesAnswer{Stages: stages, Unreachable: unreachables(got.GetUnreachable())}, nil
}

func (a stagesAnswer) missing() []unreachable { return a.Unreachable }

// table shows no numbers for what a kind of stage does not have: a source has no
// inlet, a sink no outlet.
func (a stagesAnswer) table() *table {
	t := newTable(text("STAGE"), text("NODE"), text("KIND"), text("STATE"), number("IN"), number("OUT"),
		number("BUFFERED"), number("UNMET_DEMAND"), text("DISCARDED"), text("ERROR"))
	for _, s := range a.Stages {
		in, out, unmet := count(s.EventsIn), count(s.EventsOut), count(s.UnmetDemand)
		switch s.Kind {
		case "source":
			in = ""
		case "sink":
			out, unmet = "", ""
		}
		t.add(s.Name, s.Node, s.Kind, s.State, in, out, count(s.Buffered), unmet, discards(s.Discarded), s.Error)
	}
	return t
}

// discards writes how many events were discarded, and why: "7 (overflow 5, stopped 2)".
func discards(by map[string]int64) string {
	var sum int64
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		sum += by[reason]
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, by[reason]))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(reasons, ", "))
}
