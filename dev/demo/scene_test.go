package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestACommandThatIsNotAsExpectedFailsItsStep(t *testing.T) {
	for _, test := range []struct {
		sentence, command string
		checks            []check
		fails             string // what the error says; nothing for success
	}{
		{"success is expected", "true", nil, ""},
		{"unless something else is", "exit_with() { return $1; }; exit_with 2", []check{exits(2)}, ""},
		{"failure fails", "false", nil, "its exit status is 1, not 0"},
		{"and so does unexpected success", "true", []check{exits(2)}, "its exit status is 0, not 2"},
		{"output is compared line by line", `printf 'a\nb\nc\n'`, []check{prints("^b$")}, ""},
		{"missing output fails", "echo b", []check{prints("^a$")}, `its output does not match "^a$"`},
		{"unwanted output fails", "echo secret", []check{lacks("secret")}, `its output matches "secret"`},
		{"one bad check of several fails", "echo a", []check{prints("a"), lacks("b"), prints("c")}, `its output does not match "c"`},
	} {
		var out bytes.Buffer
		s := &stage{screen: &screen{out: &out}, shell: testShell(t)}
		err := tell(t.Context(), s, []scene{{title: "Try", parts: []part{do(test.command, test.checks...)}}})
		switch {
		case test.fails == "" && err != nil:
			t.Errorf("%s: %v", test.sentence, err)
		case test.fails != "" && err == nil:
			t.Errorf("%s: no error, want %q", test.sentence, test.fails)
		case test.fails != "" && !strings.Contains(err.Error(), "step 1 (Try) failed: `"+test.command+"`: "+test.fails):
			t.Errorf("%s: %v, want %q", test.sentence, err, test.fails)
		}
		if !strings.Contains(out.String(), "    $ "+test.command+"\n") {
			t.Errorf("%s: the command isn't shown but %q", test.sentence, out.String())
		}
	}
}

func TestNothingIsToldAfterAFailure(t *testing.T) {
	want := errors.New("no")
	told := 0
	count := func(context.Context, *stage) error { told++; return nil }
	fail := func(context.Context, *stage) error { return want }
	s := &stage{screen: &screen{out: &bytes.Buffer{}}}
	err := tell(t.Context(), s, []scene{{parts: []part{count, fail, count}}, {parts: []part{count}}})
	if !errors.Is(err, want) || told != 1 {
		t.Errorf("tell returns %v after %d parts, want %v after 1", err, told, want)
	}
}

func TestStageEndsWhatBeganLastFirst(t *testing.T) {
	var order []string
	s := &stage{}
	for _, name := range []string{"folder", "cluster", "controller"} {
		s.atEnd(func() error { order = append(order, name); return errors.New(name) })
	}
	err := s.close()
	if got := strings.Join(order, " "); got != "controller cluster folder" {
		t.Errorf("the order is %s", got)
	}
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("close returns %v, want all three errors", err)
	}
	if err := s.close(); err != nil || len(order) != 3 {
		t.Errorf("closing again returns %v and does something", err)
	}
}

func TestASceneThatNeedsPodsIsLeftOutWithoutANode(t *testing.T) {
	var out bytes.Buffer
	told := 0
	scenes := []scene{
		{title: "Pods", lesson: "Pods run.", needsPod: true, parts: []part{func(context.Context, *stage) error { told++; return nil }}},
		{title: "More", lesson: "More.", parts: []part{func(context.Context, *stage) error { told += 10; return nil }}},
	}
	s := &stage{screen: &screen{out: &out}, noNode: "there is no root"}
	if err := tell(t.Context(), s, scenes); err != nil || told != 10 {
		t.Errorf("tell returns %v and %d parts were told", err, told)
	}
	if !strings.Contains(out.String(), "Left out, because it needs pods: there is no root.") {
		t.Errorf("the screen shows %q", out.String())
	}
	if got := lessons(scenes, s.noNode); got[0] != `"Pods" was left out: there is no root.` || got[1] != "More." {
		t.Errorf("the lessons are %q", got)
	}
	if got := lessons(scenes, ""); got[0] != "Pods run." {
		t.Errorf("with a node the lessons are %q", got)
	}
}
