package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	sluicev1 "github.com/sluicenet/sluice/proto/sluice/v1"
)

const versionHelp = `Show the version of this sluicectl and of every node. Where no node can be asked, its
own version is shown all the same, and the exit code is 1; --client asks no node.

JSON keys:
  client       this sluicectl
  nodes        the members of the cluster
  unreachable  the members that did not answer

JSON keys of client:
  version     its version
  revision    the commit it was built from, "" if unknown
  modified    true when it was built from changed files
  go_version  the Go it was built with

JSON keys of nodes[]:
  name     its logical name
  version  its version, "" if unknown
` + unreachableHelp

type versionAnswer struct {
	Client      clientBuild   `json:"client"`
	Nodes       []nodeVersion `json:"nodes"`
	Unreachable []unreachable `json:"unreachable"`
}

type clientBuild struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Modified  bool   `json:"modified"`
	GoVersion string `json:"go_version"`
}

type nodeVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// thisBuild is what the linker knows of this program.
func thisBuild() clientBuild {
	b := clientBuild{Version: "unknown", GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) version() *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of sluicectl and of the nodes",
		Long:  versionHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			alone := versionAnswer{Client: a.client, Nodes: []nodeVersion{}, Unreachable: []unreachable{}}
			if clientOnly {
				return a.print(alone)
			}
			return a.askVersions(cmd.Context(), alone)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "show the version of sluicectl only")
	return cmd
}

func (a *app) askVersions(ctx context.Context, alone versionAnswer) error {
	var nodes []node
	err := a.ask(ctx, func(ctx context.Context, c sluicev1.AdminServiceClient) (answer, error) {
		got, err := listNodes(ctx, c)
		if err != nil {
			return nil, err
		}
		nodes = got.Nodes
		all := alone
		for _, n := range nodes {
			all.Nodes = append(all.Nodes, nodeVersion{Name: n.Name, Version: n.Version})
		}
		all.Unreachable = got.Unreachable
		return all, nil
	})
	var f *failure
	if errors.As(err, &f) {
		_ = a.print(alone) // the error that is there already says more
		return err
	}
	a.warnOfSkew(nodes)
	return err
}

// warnOfSkew says when the nodes do not all run the same version.
func (a *app) warnOfSkew(nodes []node) {
	var versions []string
	for _, n := range nodes {
		runs := n.State != "left" && n.State != "dead"
		if runs && n.Version != "" && !slices.Contains(versions, n.Version) {
			versions = append(versions, n.Version)
		}
	}
	if len(versions) > 1 {
		slices.Sort(versions)
		fmt.Fprintf(a.stderr, "the nodes run %d versions: %s\n", len(versions), oneLine(strings.Join(versions, ", ")))
	}
}

func (a versionAnswer) missing() []unreachable { return a.Unreachable }

func (a versionAnswer) table() *table {
	t := newTable(text("NAME"), text("KIND"), text("VERSION"))
	t.add("sluicectl", "client", a.Client.Version)
	for _, n := range a.Nodes {
		t.add(n.Name, "node", n.Version)
	}
	return t
}
