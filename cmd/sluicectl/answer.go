package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

// unreachableHelp ends the help of every verb that asks the cluster.
const unreachableHelp = `
JSON keys of unreachable[]:
  node     the name of a member that did not answer
  address  where it was asked
  error    why there is no answer

Exit codes: 0 every node answered, 1 an error, 2 a wrong command line,
3 some nodes did not answer.`

// unreachable is a member that did not answer.
type unreachable struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Error   string `json:"error"`
}

func unreachables(from []*sluicev1.Unreachable) []unreachable {
	list := make([]unreachable, 0, len(from))
	for _, u := range from {
		list = append(list, unreachable{Node: u.GetNode(), Address: u.GetAddress(), Error: u.GetError()})
	}
	slices.SortStableFunc(list, func(a, b unreachable) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// answer is what a question to the cluster comes back with. It encodes as the
// JSON document.
type answer interface {
	table() *table
	missing() []unreachable
}

// ask puts one question to the cluster, and prints the answer.
func (a *app) ask(ctx context.Context, question func(context.Context, sluicev1.AdminServiceClient) (answer, error)) error {
	client, closeConn, err := a.connect()
	if err != nil {
		return err
	}
	defer closeConn()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()

	got, err := question(ctx, client)
	if err != nil {
		return explain(err, a.server, a.timeout)
	}
	return a.print(got)
}

// print writes the answer, and who is missing from it.
func (a *app) print(got answer) error {
	write := got.table().write
	if a.output == formatJSON {
		write = document{got}.write
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	missing := got.missing()
	a.name(missing)
	if len(missing) > 0 {
		return errPartial
	}
	return nil
}

// name says on stderr who did not answer.
func (a *app) name(missing []unreachable) {
	for _, u := range missing {
		fmt.Fprintf(a.stderr, "node %s (%s) did not answer: %s\n", known(u.Node), known(u.Address), known(u.Error))
	}
}
