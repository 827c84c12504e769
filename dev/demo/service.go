package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// service is a program that runs in the background.
type service struct {
	name     string
	log      string // the name of the file that it writes to
	process  *exec.Cmd
	stopping atomic.Bool
	ended    chan struct{}
	err      error // how it ended; nil for exit status 0. To be read after ended is closed
}

// endedError says that a service ended though nobody stopped it.
type endedError struct{ name, log, status string }

func (e *endedError) Error() string { return e.name + " ended unexpectedly: " + e.status }

// startService starts a program and calls failed with an *endedError if it ends though nobody stopped it.
func startService(name, log string, process *exec.Cmd, failed func(error)) (*service, error) {
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which then stops it
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s := &service{name: name, log: log, process: process, ended: make(chan struct{})}
	go func() {
		s.err = process.Wait()
		if !s.stopping.Swap(true) {
			failed(&endedError{name: name, log: log, status: process.ProcessState.String()})
		}
		close(s.ended)
	}()
	return s, nil
}

// stop asks the program to end and kills it if it doesn't within the grace. One that has ended is left alone.
func (s *service) stop(ask func(), grace time.Duration) error {
	if s.stopping.Swap(true) {
		return nil
	}
	ask()
	select {
	case <-s.ended:
	case <-time.After(grace):
		_ = s.process.Process.Kill()
		<-s.ended
		return fmt.Errorf("%s had to be killed: it did not stop within %s", s.name, grace)
	}
	if s.err != nil {
		return fmt.Errorf("stopping %s: %w", s.name, s.err)
	}
	return nil
}

func (s *service) terminate() { _ = s.process.Process.Signal(syscall.SIGTERM) }

// tail returns the last lines of a text file; nothing if it can't be read.
func tail(file string, lines int) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
