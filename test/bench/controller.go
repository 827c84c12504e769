package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLimit is how long the program may take to end.
const stopLimit = time.Minute

// controller is the program as a process.
type controller struct {
	process *os.Process
	started time.Time
	log     string
	ended   chan struct{} // closed when the process has ended
	err     error         // how, valid then
}

// startController starts the program against a PostgreSQL server. extra are more environment variables.
func (w *world) startController(d *database, resync time.Duration, extra ...string) (*controller, error) {
	log, err := os.CreateTemp(w.dir, "program-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(w.program)
	command.Dir = w.dir
	command.Env = append(extra,
		"PATH="+os.Getenv("PATH"),
		"HOME="+w.dir,
		"KUBECONFIG="+w.env.Kubeconfig,
		"POSTGRES_ADMIN_DSN_FILE="+d.dsnFile,
		"POSTGRES_HOST="+d.Host(),
		"POSTGRES_PORT="+strconv.Itoa(d.Port()),
		"CONTROLLER_RESYNC="+resync.String(),
	)
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"} { // for experiments
		if value, ok := os.LookupEnv(name); ok {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	if w.options.profiles != "" {
		command.Env = append(command.Env, profileVariable+"="+w.options.profiles)
	}
	command.Stderr = log
	c := &controller{started: time.Now(), log: log.Name(), ended: make(chan struct{})}
	if err := command.Start(); err != nil {
		return nil, err
	}
	c.process = command.Process
	go func() {
		c.err = command.Wait()
		close(c.ended)
	}()
	w.current = c
	w.atEnd(c.stop)
	return c, nil
}

// stop ends the program in order. A program that was stopped before is no error.
func (c *controller) stop() error {
	_ = c.process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(stopLimit):
		_ = c.process.Kill()
		<-c.ended
		return errors.New("the program did not end on SIGTERM")
	}
	if c.err != nil {
		return fmt.Errorf("the program: %w", c.err)
	}
	return nil
}

// memory is a process's in MB of a million bytes; all 0 where that can't be had.
type memory struct {
	// Now is what is in memory; Mapped is the part of it that is the program's file, which the kernel may drop.
	Now, Mapped float64
	// Peak is the most that Now ever was.
	Peak float64
}

func (c *controller) memory() memory {
	var m memory
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.process.Pid), "status"))
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			m.Now = kib * 1024 / 1e6
		case "RssFile":
			m.Mapped = kib * 1024 / 1e6
		case "VmHWM":
			m.Peak = kib * 1024 / 1e6
		}
	}
	return m
}
