package main

import (
	"os/exec"
	"syscall"
)

// dieTogether lets the system end the process of cmd when this one ends, however
// that comes. An interrupt from the terminal is for this process alone.
func dieTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
