// Sluice-node runs the stages of a configuration file as one node of a network.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Whoever reads our output may go: that is an error of a write, and not our end.
	signal.Ignore(syscall.SIGPIPE)
	ctx, drain := context.WithCancelCause(context.Background())
	go obey(drain)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// obey drains at the first signal and cuts at the second one. It does not leave that to
// the system, which spares a process that is the first of its container.
func obey(drain context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	drain(fmt.Errorf("signal: %v", <-signals))
	second := <-signals
	fmt.Fprintf(os.Stderr, "sluice-node: cut by a second signal: %v\n", second)
	code := exitError
	if number, ok := second.(syscall.Signal); ok {
		code = exitSignal + int(number)
	}
	os.Exit(code)
}
