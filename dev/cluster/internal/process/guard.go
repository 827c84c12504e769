package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// GuardCommand is the first argument that makes this program a guard; the second is the folder. The program's
// main function must then call RunGuard.
const GuardCommand = "guard"

// Guard is the supervisor's side of a guard.
type Guard struct {
	folder  string
	command *exec.Cmd
	pipe    io.WriteCloser
	ended   chan struct{}
}

// StartGuard starts a guard for a folder that does not exist yet, so that there is no moment in which the folder
// exists unguarded. The guard shares lock, which therefore stays taken until it has cleaned up; lock may be nil.
func StartGuard(folder string, lock *os.File) (*Guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	command := exec.Command(self, GuardCommand, folder)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // whoever kills our process group spares the guard
	if lock != nil {
		command.ExtraFiles = []*os.File{lock}
	}
	pipe, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	guard := &Guard{folder: folder, command: command, pipe: pipe, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // how it ended changes nothing
		close(guard.ended)
	}()
	return guard, nil
}

// watch makes the guard kill the process when this program ends.
func (g *Guard) watch(pid int) error {
	if _, err := fmt.Fprintln(g.pipe, pid); err != nil {
		return fmt.Errorf("tell the guard of process %d: %w", pid, err)
	}
	return nil
}

// Ended is closed when the guard is gone, after Release or because somebody killed it.
func (g *Guard) Ended() <-chan struct{} { return g.ended }

// Release lets the guard clean up and waits until it has. What a guard that was killed has not done is done here.
// The processes must have been stopped.
func (g *Guard) Release() error {
	_ = g.pipe.Close() // a guard that was killed has closed its end before
	<-g.ended
	return removeAll(g.folder)
}

// RunGuard is the guard: it reads process identifiers until in ends, which is when its parent has ended or let go,
// kills those processes and removes the folder.
func RunGuard(folder string, in io.Reader) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	var watched []*os.Process
	for lines := bufio.NewScanner(in); lines.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil || pid <= 1 {
			continue // half a line of a parent that was killed while writing
		}
		// The handle stays that process's own even if its number is used again (on Linux, by pidfd).
		if p, err := os.FindProcess(pid); err == nil {
			watched = append(watched, p)
		}
	}
	for _, p := range watched {
		_ = p.Kill()
	}
	awaitEnd(watched, 10*time.Second)
	return removeAll(folder)
}

// awaitEnd returns when no process is left, or after the limit, for example if one hangs in the kernel.
func awaitEnd(processes []*os.Process, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for _, p := range processes {
		for time.Now().Before(deadline) && !gone(p) {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// removeAll removes the folder, trying again for as long as a process that is not quite gone may add files.
func removeAll(folder string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(folder); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
