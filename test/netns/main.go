//go:build linux

// Netns runs the daemon on machines of their own, and breaks the network between them as
// the kernel does it: cables are pulled, packets vanish in one direction, a link is slow,
// an address changes. Each scenario has three network namespaces on a bridge, all at the
// same time, and numbered lines go from the first to the third.
//
//	sudo go run ./test/netns [split oneway slow moved]
//
// It needs root, of the machine or of a namespace of users, ip and tc. All of it happens in namespaces of its own, for mounts and for
// the network, which end with the process: nothing of the machine is changed, and nothing
// is left, however it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sluicenet/sluice/test/harness"
)

// insideEnv is where the programs are, for the process that runs inside.
const insideEnv = "SLUICE_NETNS_PROGRAMS"

// atMost is how long everything may take.
const atMost = 4 * time.Minute

func main() {
	runtime.LockOSThread() // the kernel kills the inside when this thread ends
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	do := outside
	if programs, ok := os.LookupEnv(insideEnv); ok {
		do = func(ctx context.Context) error { return inside(ctx, programs) }
	}
	err := do(ctx)
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		os.Exit(1) // the inside has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netns:", err)
		os.Exit(1)
	}
}

// outside builds the programs, and runs this one inside of new namespaces.
func outside(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("only root makes network namespaces: run it with sudo, or as root of a namespace of users: unshare -U -r")
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed, which makes the network: it comes with iproute2", tool)
		}
	}
	dir, err := os.MkdirTemp("", "sluice-netns")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := harness.Build(dir, "cmd/sluice-node", "cmd/sluicectl"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("this root may make no namespaces: %w: a container has to be privileged", err)
	}
	return err
}

// inside runs the scenarios, and prints what they have shown.
func inside(ctx context.Context, programs string) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	// ip keeps the names of namespaces in /run: these are seen by nobody else.
	if err := syscall.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a /run of its own: %w", err)
	}
	chosen := slices.DeleteFunc(scenarios, func(s scenario) bool {
		return len(os.Args) > 1 && !slices.Contains(os.Args[1:], s.name)
	})
	fmt.Printf("%d scenarios at the same time, a minute and a half\n", len(chosen))
	shown, failed := make([]string, len(chosen)), make([]error, len(chosen))
	var wg sync.WaitGroup
	for i, s := range chosen {
		wg.Go(func() { shown[i], failed[i] = s.run(ctx, i, filepath.Join(programs, s.name), programs) })
	}
	wg.Wait()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for i, s := range chosen {
		verdict := "ok"
		if failed[i] != nil {
			verdict, shown[i] = "FAILED", failed[i].Error()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", verdict, s.what, shown[i])
	}
	_ = t.Flush()
	if err := errors.Join(failed...); err != nil {
		return errors.New("not everything that is promised was kept")
	}
	return nil
}
