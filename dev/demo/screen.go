package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	columns = 100
	// indent tells what a terminal shows from what the story says, even without colours.
	indent = "    "
)

// screen is where the story is told.
type screen struct {
	colours bool

	mu    sync.Mutex // the signals' goroutine writes too
	out   io.Writer
	blank bool // the last line is empty
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &screen{out: out, colours: terminal && os.Getenv("NO_COLOR") == ""}
}

// The colours, by their codes.
const (
	bold = "1"
	red  = "31"
	cyan = "36"
)

func (s *screen) paint(code, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, text) // without a reader there is nobody to tell
	s.blank = strings.HasSuffix(text, "\n\n")
}

func (s *screen) line(text string) { s.print(text + "\n") }

func (s *screen) title(number int, title string) {
	s.print("\n" + s.paint(bold, fmt.Sprintf("%d. %s", number, title)) + "\n")
}

// say prints a paragraph of the story.
func (s *screen) say(text string) {
	s.mu.Lock()
	blank := s.blank
	s.mu.Unlock()
	if !blank {
		s.line("")
	}
	s.print(strings.Join(wrap(text, columns), "\n") + "\n\n")
}

// command prints a command as its user would type it.
func (s *screen) command(text string) {
	for i, line := range strings.Split(text, "\n") {
		if i == 0 {
			line = "$ " + line
		} else {
			line = "  " + line
		}
		s.line(indent + s.paint(cyan, line))
	}
}

// output prints what a command wrote, lines that are too long as several, without empty lines at the end.
func (s *screen) output(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		for _, part := range wrap(strings.TrimRight(line, "\r\n"), columns-len(indent)) {
			s.line(strings.TrimRight(indent+part, " "))
		}
	}
}

// working prints what is done and, if it succeeds, how long it took.
func (s *screen) working(what string, do func() error) error {
	s.print(indent + what + " ... ")
	started := time.Now()
	err := do()
	if err != nil {
		s.line("")
		return err
	}
	s.line(fmt.Sprintf("%.1f s", time.Since(started).Seconds()))
	return nil
}

// complain prints what went wrong.
func (s *screen) complain(format string, values ...any) {
	s.line(s.paint(red, "demo: "+fmt.Sprintf(format, values...)))
}

func (s *screen) summary(lessons []string, took time.Duration) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n\n", s.paint(bold, fmt.Sprintf("What you saw, in %.0f seconds", took.Seconds())))
	for i, lesson := range lessons {
		for j, line := range wrap(lesson, columns-9) {
			lead := "   "
			if j == 0 {
				lead = fmt.Sprintf("%2d.", i+1)
			}
			fmt.Fprintf(&text, "%s %s\n", lead, line)
		}
	}
	s.line(text.String())
}

// wrap breaks a line at spaces where it is longer than width. A line that fits keeps its spaces.
func wrap(text string, width int) []string {
	if len(text) <= width {
		return []string{text}
	}
	var lines []string
	for len(text) > width {
		end := strings.LastIndexByte(text[:width+1], ' ')
		if end <= 0 {
			if end = strings.IndexByte(text, ' '); end < 0 {
				break
			}
		}
		lines = append(lines, strings.TrimRight(text[:end], " "))
		text = strings.TrimLeft(text[end:], " ")
	}
	return append(lines, text)
}
