package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const validateHelp = `Check a configuration without running it: no port is opened, and no file but
the certificate, the key, the CA and the keyring that it names.

Every problem is one line on stderr, as file:line:col: what [code]. The exit code is 78
then, and 0 when the file can be run.`

func (a *app) validate() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "validate -c FILE",
		Short:   "Check a configuration without running it",
		Long:    validateHelp,
		Example: "  sluice-node validate -c sluice.yaml",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			f, err := load(path)
			if err != nil {
				return err
			}
			if _, err := build(f, settings{}); err != nil {
				return err
			}
			for _, note := range notes(f) {
				fmt.Fprintln(a.stderr, note)
			}
			stages := "stages"
			if len(f.Stages) == 1 {
				stages = "stage"
			}
			_, err = fmt.Fprintf(a.stdout, "%s: ok, node %q with %d %s\n", path, f.Node.Name, len(f.Stages), stages)
			return err
		},
	}
	fileFlag(cmd, &path)
	return cmd
}
