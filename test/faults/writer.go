//go:build linux

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// BuildWriter builds the writer's program into a folder, from a folder inside the repository, and returns its path.
func BuildWriter(ctx context.Context, folder string) (string, error) {
	program := filepath.Join(folder, "writer")
	command := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/example/databases/test/faults/writer")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the writer: %w: %s", err, output)
	}
	return program, nil
}

// Ack is a row that was acknowledged.
type Ack struct {
	ID int64
	At time.Time
}

// Failure is a row that wasn't acknowledged, or a connection that failed (with ID 0).
type Failure struct {
	Ack
	Kind string
}

// Writer is a process that writes rows, and what it has said so far.
type Writer struct {
	command *exec.Cmd
	stdin   io.Closer
	read    chan struct{} // closed when all it said has been read

	mu       sync.Mutex
	start    time.Time
	acks     []Ack
	failures []Failure
	stopped  time.Time
	broken   error // what it said and can't be understood
}

// StartWriter starts the program by a command line that may begin with another program, as nsenter, to start it in some
// other place.
func StartWriter(login Login, argv ...string) (*Writer, error) {
	w := &Writer{command: exec.Command(argv[0], argv[1:]...), read: make(chan struct{})}
	w.command.Stderr = os.Stderr
	w.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := w.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	w.stdin = stdin
	stdout, err := w.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(login)
	if err != nil {
		return nil, err
	}
	if err := w.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the writer: %w", err)
	}
	go w.listen(stdout)
	if _, err := stdin.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(errors.New("the writer takes no login"), w.Stop())
	}
	return w, nil
}

func (w *Writer) listen(output io.Reader) {
	defer close(w.read)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		w.mu.Lock()
		if err := w.note(lines.Text()); err != nil && w.broken == nil {
			w.broken = err
		}
		w.mu.Unlock()
	}
}

func (w *Writer) note(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	var id, nanoseconds int64
	switch word {
	case "start":
		if _, err := fmt.Sscan(rest, &nanoseconds); err != nil {
			return fmt.Errorf("the writer says %q: %w", line, err)
		}
		w.start = time.Unix(0, nanoseconds)
		return nil
	case "ack":
		if _, err := fmt.Sscan(rest, &id, &nanoseconds); err != nil {
			return fmt.Errorf("the writer says %q: %w", line, err)
		}
		w.acks = append(w.acks, Ack{id, w.start.Add(time.Duration(nanoseconds))})
		return nil
	case "fail":
		f := Failure{}
		if _, err := fmt.Sscan(rest, &f.ID, &nanoseconds, &f.Kind); err != nil {
			return fmt.Errorf("the writer says %q: %w", line, err)
		}
		f.At = w.start.Add(time.Duration(nanoseconds))
		w.failures = append(w.failures, f)
		return nil
	}
	return fmt.Errorf("the writer says %q", line)
}

// Acknowledged are the rows that were acknowledged so far, in their order.
func (w *Writer) Acknowledged() []Ack {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acks[:len(w.acks):len(w.acks)]
}

// Failures are what failed at or after a time.
func (w *Writer) Failures(since time.Time) []Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Failure
	for _, f := range w.failures {
		if !f.At.Before(since) {
			all = append(all, f)
		}
	}
	return all
}

// LongestGap is the longest time between two acknowledgements of which the later one came after since; and until now, or
// the end of the writer, where none follows.
func (w *Writer) LongestGap(since time.Time) time.Duration {
	w.mu.Lock()
	until := w.stopped
	w.mu.Unlock()
	if until.IsZero() {
		until = time.Now()
	}
	return longestGap(w.Acknowledged(), since, until)
}

func longestGap(acks []Ack, since, until time.Time) time.Duration {
	var longest time.Duration
	last := since
	for _, ack := range acks {
		if ack.At.After(since) {
			longest = max(longest, ack.At.Sub(last))
		}
		last = ack.At
	}
	return max(longest, until.Sub(last))
}

// Stop ends the writer after the row that it is at.
func (w *Writer) Stop() error {
	w.mu.Lock()
	w.stopped = time.Now()
	w.mu.Unlock()
	_ = w.stdin.Close()
	<-w.read
	err := w.command.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("the writer: %w", err)
	}
	return errors.Join(err, w.broken)
}
