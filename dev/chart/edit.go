package main

import (
	"fmt"
	"strings"
)

// file is a generated file.
type file struct {
	from, to string
	// condition is the template condition under which the objects are made; empty: always.
	condition string
	edits     []edit
	// before stands above everything and says where the file comes from.
	before string
	// columns is how far the text is moved to the right.
	columns int
}

// edit replaces lines.
type edit struct {
	old, new string
	times    int // how often old must be there; 0: once
}

func (f file) render(text string) (string, error) {
	for _, e := range f.edits {
		times := max(e.times, 1)
		if found := strings.Count(text, e.old); found != times {
			return "", fmt.Errorf("%s: these lines were expected %d times and are there %d times; mend the edits of %s in dev/chart:\n%s", f.from, times, found, f.to, e.old)
		}
		text = strings.ReplaceAll(text, e.old, e.new)
	}
	text = strings.TrimPrefix(text, "---\n")
	if f.condition != "" {
		text = "{{- if " + f.condition + " }}\n" + text + "{{- end }}\n"
	}
	return f.before + indent(f.columns, text), nil
}

// indent puts text below something that is so many columns from the left.
func indent(columns int, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString(strings.Repeat(" ", columns))
		}
		b.WriteString(line)
	}
	return b.String()
}
