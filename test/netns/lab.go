//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluicenet/sluice/test/harness"
)

// lab is three machines on a switch, a, b and c: namespaces, and a bridge. Its methods
// are for one goroutine.
type lab struct {
	ctx      context.Context
	name     string
	number   int // of its network
	dir      string
	programs string
	moved    map[string]bool // machines that have their second address
	running  map[string]*harness.Process
	flow     flow
}

var machines = []string{"a", "b", "c"}

// build makes the machines and their network.
func (l *lab) build() error {
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		return err
	}
	if err := l.do("ip", "link", "add", l.bridge(), "type", "bridge"); err != nil {
		return err
	}
	lines := []string{"link set " + l.bridge() + " up"}
	for _, m := range machines {
		ns, port := l.ns(m), l.port(m)
		lines = append(lines,
			"netns add "+ns,
			"link add "+port+" type veth peer name eth0 netns "+ns,
			"link set "+port+" master "+l.bridge()+" up",
			"-n "+ns+" link set lo up",
			"-n "+ns+" link set eth0 up",
			"-n "+ns+" addr add "+l.address(m)+"/24 dev eth0",
		)
	}
	return l.ip(lines...)
}

// close kills what runs still. What a program has said when it failed is printed.
func (l *lab) close(failed bool) {
	for _, m := range machines {
		p := l.running[m]
		if p == nil {
			continue
		}
		p.Kill()
		if failed {
			fmt.Fprintf(os.Stderr, "%s: %s said last:\n%s", l.name, m, tail(p.Said(), 20))
		}
	}
}

func tail(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}

func (l *lab) ns(machine string) string   { return l.name + "-" + machine }
func (l *lab) bridge() string             { return fmt.Sprintf("br%d", l.number) }
func (l *lab) port(machine string) string { return fmt.Sprintf("port%d%s", l.number, machine) }

// address is the address of a machine.
func (l *lab) address(machine string) string {
	host := 1 + int(machine[0]-'a')
	if l.moved[machine] {
		host += 10
	}
	return fmt.Sprintf("10.77.%d.%d", l.number, host)
}

// ip runs ip, once for each line of arguments.
func (l *lab) ip(lines ...string) error {
	for _, line := range lines {
		if err := l.do("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) do(name string, args ...string) error {
	if out, err := exec.CommandContext(l.ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// on is a program of ours that runs on a machine.
func (l *lab) on(machine, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(l.ctx, "ip", append([]string{"netns", "exec", l.ns(machine), filepath.Join(l.programs, program)}, args...)...)
}

// unplug pulls the cable of a machine.
func (l *lab) unplug(machine string) error { return l.ip("link set " + l.port(machine) + " down") }

// plug puts it in again.
func (l *lab) plug(machine string) error { return l.ip("link set " + l.port(machine) + " up") }

// deafen lets what goes from one machine to another vanish, and says nothing: it is sent
// to a card that nobody has.
func (l *lab) deafen(from, to string) error {
	return l.ip("-n " + l.ns(from) + " neigh replace " + l.address(to) + " lladdr 02:00:00:00:00:fe dev eth0 nud permanent")
}

// undeafen ends that.
func (l *lab) undeafen(from, to string) error {
	return l.ip("-n " + l.ns(from) + " neigh del " + l.address(to) + " dev eth0")
}

// throttle limits what a machine sends, in bytes a second.
func (l *lab) throttle(machine string, rate int) error {
	return l.ip(fmt.Sprintf("netns exec %s tc qdisc replace dev eth0 root tbf rate %dbps burst 32kb latency 400ms", l.ns(machine), rate))
}

// unthrottle ends that.
func (l *lab) unthrottle(machine string) error {
	return l.ip("netns exec " + l.ns(machine) + " tc qdisc del dev eth0 root")
}

// move gives a machine another address instead of the one that it has.
func (l *lab) move(machine string) error {
	before := l.address(machine)
	l.moved[machine] = true
	return l.ip(
		"-n "+l.ns(machine)+" addr del "+before+"/24 dev eth0",
		"-n "+l.ns(machine)+" addr add "+l.address(machine)+"/24 dev eth0",
	)
}
