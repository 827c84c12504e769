package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// shell is one sh that runs all commands of the story, so that a variable set by one is there for the next, as in a
// terminal.
type shell struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *os.File // what commands write to either output
	lines   *bufio.Reader
	marker  string // begins the line that says how a command ended; no command can know it
}

func startShell(folder string, environment []string) (*shell, error) {
	process := exec.Command("/bin/sh")
	process.Dir, process.Env = folder, environment
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of a terminal's Ctrl-C
	in, err := process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	process.Stdout, process.Stderr = theirs, theirs
	err = process.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	return &shell{process: process, in: in, out: out, lines: bufio.NewReader(out), marker: rand.Text()}, nil
}

// run runs a command and returns what it wrote and its exit status. When ctx ends, the shell does too.
func (s *shell) run(ctx context.Context, command string) (output string, status int, err error) {
	defer context.AfterFunc(ctx, s.kill)()
	// A command must not read the shell's input, which holds the commands that follow.
	_, err = fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\n%s %%d\\n' $?\n", command, s.marker)
	if err != nil {
		return "", 0, s.failure(ctx, err)
	}
	var text strings.Builder
	for {
		line, err := s.lines.ReadString('\n')
		if result, ok := strings.CutPrefix(line, s.marker); ok && err == nil {
			status, err = strconv.Atoi(strings.TrimSpace(result))
			return strings.TrimSuffix(text.String(), "\n"), status, err // that newline is the marker's
		}
		text.WriteString(line)
		if err != nil {
			return text.String(), 0, s.failure(ctx, err)
		}
	}
}

func (s *shell) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the shell ended")
	}
	return err
}

// kill kills the shell and what it runs.
func (s *shell) kill() { _ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) }

func (s *shell) close() error {
	s.kill()
	_ = s.process.Wait() // it was killed
	return s.out.Close()
}
