//go:build linux

// Package harness runs real processes for tests: it builds programs, starts them,
// kills them, stops and continues them, and leaves none behind.
//
// Each process leads a process group of its own, which an interrupt from the terminal
// does not reach, and which the kernel kills when the test dies, however that comes.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds programs of this module into dir, under the last part of their path.
func Build(dir string, packages ...string) error {
	args := []string{"build", "-o", dir + "/"}
	for _, p := range packages {
		args = append(args, "github.com/sluicenet/sluice/"+p)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", packages, err, out)
	}
	return nil
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Process is a running program. Its methods may be called from any goroutine.
type Process struct {
	Name string
	// Done is closed when it has exited.
	Done chan struct{}

	cmd *exec.Cmd
	err error

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// locked is a writer under the process's lock, so that what was printed so far can
// be read at any time.
type locked struct {
	p  *Process
	to *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.to.Write(b)
}

// Start starts cmd. What it prints is kept, unless cmd says where it goes.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, Done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = locked{p, &p.stdout}
	}
	if cmd.Stderr == nil {
		cmd.Stderr = locked{p, &p.stderr}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// Signal sends s to the process and to those that it has started.
func (p *Process) Signal(s syscall.Signal) {
	if p.Running() {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

// Kill ends the process as a crash would, paused or not, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Exit waits for the process and returns its exit code, -1 for one that was killed. It
// returns an error when the process does not exit within patience.
func (p *Process) Exit(patience time.Duration) (int, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.Done:
	case <-timer.C:
		return 0, fmt.Errorf("%s has not ended within %v", p.Name, patience)
	}
	if exit := new(exec.ExitError); errors.As(p.err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, p.err
}

// Said is what it has written to its standard error so far.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// Printed is what it has written to its standard output so far.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String()
}

// PeakMemory is the most that the process has ever held, in bytes.
func (p *Process) PeakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("the kernel does not say how much memory was used")
}
