package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this sluice-node",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			version, revision := thisBuild()
			if revision != "" {
				revision = ", revision " + revision
			}
			_, err := fmt.Fprintf(a.stdout, "sluice-node %s%s, %s\n", version, revision, runtime.Version())
			return err
		},
	}
}

// thisBuild is what the linker knows of this program.
func thisBuild() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", ""
	}
	version = cmp.Or(info.Main.Version, "unknown")
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += " and changes"
		}
	}
	return version, revision
}
