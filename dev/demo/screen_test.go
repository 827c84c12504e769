package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		sentence, text string
		want           []string
	}{
		{"a line that fits keeps its spaces", "a   b", []string{"a   b"}},
		{"one that doesn't is broken at a space", "one two three", []string{"one two", "three"}},
		{"which may be right after the last column", "one two 3 four", []string{"one two 3", "four"}},
		{"a word that is too long stays whole", "a incomprehensible b", []string{"a", "incomprehensible", "b"}},
		{"also at the beginning or alone", "incomprehensible", []string{"incomprehensible"}},
		{"nothing is one empty line", "", []string{""}},
	} {
		if got := wrap(test.text, 9); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", test.sentence, got, test.want)
		}
	}
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	s.title(1, "Begin")
	s.say("Words.")
	s.command("one \\\n  two")
	s.output("a\n\nb  \n\n\n")
	want := "\n1. Begin\n\nWords.\n\n    $ one \\\n        two\n    a\n\n    b\n"
	if got := out.String(); got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
	if s.colours = true; !strings.Contains(s.paint(bold, "x"), "\x1b[1mx\x1b[0m") {
		t.Error("a terminal shows no colours")
	}
}
