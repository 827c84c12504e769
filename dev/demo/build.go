package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// buildGrace is what the Go command gets to remove its temporary files when it is interrupted.
const buildGrace = 10 * time.Second

// build builds a program of the checkout into the folder.
func (s *stage) build(ctx context.Context, what, module, name, source string) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(s.checkout, module), "-o", s.file(programs+"/"+name), source)
	build.Env = append(os.Environ(), "GOTMPDIR="+s.folder, "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	return s.screen.working("Building "+what, func() error { return interruptible(build, nil).run(ctx, "build "+name) })
}

// job is a command that runs to its end, or until the demo is interrupted.
type job struct {
	command *exec.Cmd
	said    *bytes.Buffer
}

// interruptible makes a command of exec.CommandContext end by the signal after which it cleans up. What it says goes to
// out, which a terminal's progress needs, or else into the error.
func interruptible(command *exec.Cmd, out *os.File) job {
	j := job{command: command, said: &bytes.Buffer{}}
	if out != nil {
		command.Stderr = out
	} else {
		command.Stderr = j.said
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
	command.WaitDelay = buildGrace
	return j
}

func (j job) run(ctx context.Context, what string) error {
	err := j.command.Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, bytes.TrimSpace(j.said.Bytes()))
	}
	return nil
}
