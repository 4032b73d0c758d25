package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a child, as its parent sees it.
type process struct {
	spec Spec
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	// address is what the part has said.
	address string
}

// start runs a part in a process of its own, and waits until it is ready.
func start(s Spec) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{spec: s, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.within(10*time.Second, &p.address); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s %s is not ready: %w", s.Row, s.Role, err)
	}
	return p, nil
}

// within reads one answer.
func (p *process) within(d time.Duration, into any) error {
	stuck := time.AfterFunc(d, func() { _ = p.cmd.Process.Kill() })
	defer stuck.Stop()
	return p.out.Decode(into)
}

func (p *process) snapshot() (s Snapshot, err error) {
	if _, err := io.WriteString(p.in, "snap\n"); err != nil {
		return s, err
	}
	err = p.within(10*time.Second, &s)
	if err == nil && s.Fault != "" {
		err = fmt.Errorf("%s, %s, %s: %s", p.spec.Row, p.spec.Name, p.spec.Role, s.Fault)
	}
	return s, err
}

func (p *process) stop() {
	_ = p.in.Close()
	stuck := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer stuck.Stop()
	_ = p.cmd.Wait()
}
