package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func testShell(t *testing.T) *shell {
	t.Helper()
	s, err := startShell(t.TempDir(), []string{"PATH=/usr/bin:/bin"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestShellRunsCommandsAsATerminalDoes(t *testing.T) {
	s := testShell(t)
	for _, test := range []struct {
		sentence, command, output string
		status                    int
	}{
		{"a command's output is returned", "echo hello", "hello\n", 0},
		{"its end needs no newline", "printf hello", "hello", 0},
		{"nor need there be any", "true", "", 0},
		{"both outputs are, in their order", "echo a; echo b >&2; echo c", "a\nb\nc\n", 0},
		{"the exit status is returned", "echo no; (exit 3)", "no\n", 3},
		{"a variable is set", "export animal=cat", "", 0},
		{"and is there for the next command", "sh -c 'echo $animal'", "cat\n", 0},
		{"a function is defined on several lines", "f() {\n  echo \"f $1\"\n}", "", 0},
		{"and is there for the next command", "f x", "f x\n", 0},
		{"a command can't read those that follow", "cat", "", 0},
		{"empty lines at the end are the command's", "printf 'a\\n\\n'", "a\n\n", 0},
	} {
		output, status, err := s.run(t.Context(), test.command)
		if err != nil || output != test.output || status != test.status {
			t.Errorf("%s: %q, exit status %d, %v; want %q and %d", test.sentence, output, status, err, test.output, test.status)
		}
	}
}

func TestShellEnds(t *testing.T) {
	t.Run("with its context, and what it runs does too", func(t *testing.T) {
		cause := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		defer cancel()
		started := time.Now()
		if _, _, err := testShell(t).run(ctx, "sleep 60"); !errors.Is(err, cause) {
			t.Errorf("run returns %v, want the context's cause", err)
		}
		if took := time.Since(started); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	t.Run("by itself, which is an error", func(t *testing.T) {
		if _, _, err := testShell(t).run(t.Context(), "exit 0"); err == nil {
			t.Error("run returns no error")
		}
	})
	t.Run("by a syntax error", func(t *testing.T) {
		if _, _, err := testShell(t).run(t.Context(), "fi"); err == nil {
			t.Error("run returns no error")
		}
	})
}
