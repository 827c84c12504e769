package build

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress shows what a long step is doing: on a terminal by one line that is rewritten every second, elsewhere by
// a line every quarter of a minute.
type Progress struct {
	out      io.Writer
	terminal bool
	last     string // the package that comes last
	started  time.Time

	mu        sync.Mutex
	doing     string
	compiled  int
	complaint []string // lines that are neither packages nor downloads: what went wrong
	partial   []byte
	width     int
}

// NewProgress shows progress on out of a build whose last package is given.
func NewProgress(out *os.File, last string) *Progress {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Progress{out: out, terminal: terminal, last: last, started: time.Now()}
}

// Write takes the output of `go build -v`.
func (p *Progress) Write(output []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, output...)
	for {
		end := bytes.IndexByte(p.partial, '\n')
		if end < 0 {
			return len(output), nil
		}
		p.line(strings.TrimRight(string(p.partial[:end]), "\r"))
		p.partial = p.partial[end+1:]
	}
}

func (p *Progress) line(line string) {
	module, download := strings.CutPrefix(line, "go: downloading ")
	switch {
	case download:
		p.doing = "downloading " + module
	case line == p.last:
		p.doing = "linking"
	case line == "" || strings.ContainsAny(line, " \t:"):
		p.complaint = append(p.complaint, line)
	default:
		p.compiled++
		p.doing = "compiling " + line
	}
}

// Show reports until the returned function is called.
func (p *Progress) Show() (stop func()) {
	interval := 15 * time.Second
	if p.terminal {
		interval = time.Second
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				p.clear()
				return
			case <-ticker.C:
				p.report()
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (p *Progress) report() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%4.0f s, %d packages compiled", time.Since(p.started).Seconds(), p.compiled)
	if p.doing != "" {
		text += ", " + p.doing
	}
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	text = text[:min(len(text), 78)]
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
	p.width = len(text)
}

// clear makes room on a terminal for what follows.
func (p *Progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
	}
}

// complaints returns what the compiler said when it failed.
func (p *Progress) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complaint
}
