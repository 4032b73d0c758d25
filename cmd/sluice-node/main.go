// Sluice-node runs the stages of a configuration file as one node of a network.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Whoever reads our output may go: that is an error of a write, and not our end.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal cuts
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
