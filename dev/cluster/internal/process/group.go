package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// EndedError says that a process ended though nobody had stopped it.
type EndedError struct {
	Name   string
	Status string   // such as "exit status 1"
	Log    []string // the last lines it wrote
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended unexpectedly: %s", e.Name, e.Status)
}

// Group is a set of processes that run and end together.
type Group struct {
	guard  *Guard
	failed chan error

	mu       sync.Mutex
	stopping bool
	running  []*exec.Cmd
	ended    map[string]*EndedError // those that ended by themselves
	waiting  sync.WaitGroup
}

// NewGroup makes an empty group whose processes the guard watches.
func NewGroup(guard *Guard) *Group {
	return &Group{guard: guard, failed: make(chan error, 1), ended: map[string]*EndedError{}}
}

// Failed yields an *EndedError when the first process of the group ends by itself.
func (g *Group) Failed() <-chan error { return g.failed }

// Ended returns an *EndedError if this process of the group has ended by itself, and nil otherwise.
func (g *Group) Ended(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ended, ok := g.ended[name]; ok {
		return ended
	}
	return nil
}

// Start starts a program under another name, its output going to the file log, and returns its identifier.
func (g *Group) Start(name, program string, arguments []string, log string) (int, error) {
	command := exec.Command(program)
	command.Args = append([]string{name}, arguments...)
	return g.StartCommand(name, command, log)
}

// StartCommand starts a command, its output going to the file log, and returns its identifier.
func (g *Group) StartCommand(name string, command *exec.Cmd, log string) (int, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	command.Stdout, command.Stderr = out, out

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		return 0, fmt.Errorf("start %s: the cluster is stopping", name)
	}
	if err := Start(command); err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	g.running = append(g.running, command)
	g.waiting.Go(func() { g.await(name, command, log) })
	if err := g.guard.watch(command.Process.Pid); err != nil {
		return 0, err
	}
	return command.Process.Pid, nil
}

// await reports the end of a process unless the group is being stopped.
func (g *Group) await(name string, command *exec.Cmd, log string) {
	_ = command.Wait() // ProcessState says more
	tail, _ := Tail(log, 20)
	ended := &EndedError{Name: name, Status: command.ProcessState.String(), Log: tail}
	g.mu.Lock()
	stopping := g.stopping
	if !stopping {
		g.ended[name] = ended
	}
	g.mu.Unlock()
	if stopping {
		return
	}
	select {
	case g.failed <- ended:
	default: // another one ended before, and is probably the reason
	}
}

// Stop kills what runs and returns when nothing does. It may be called more than once.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopping = true
	for _, command := range g.running {
		_ = command.Process.Kill()
	}
	g.mu.Unlock()
	g.waiting.Wait()
}

// Tail returns the last lines of a file, reading no more than its end.
func Tail(file string, lines int) ([]string, error) {
	const most = 64 << 10
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(-most, io.SeekEnd); err != nil {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	content, err := io.ReadAll(f)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text := strings.TrimRight(string(content), "\n")
	if text == "" {
		return nil, nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-lines):], nil
}
