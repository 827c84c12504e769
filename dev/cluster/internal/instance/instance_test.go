package instance

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		name  string
		valid bool
	}{
		{"dev", true}, {"a", true}, {"team-2", true}, {strings.Repeat("x", 32), true},
		{"", false}, {"Dev", false}, {"-a", false}, {"a-", false}, {"../a", false}, {"a/b", false}, {strings.Repeat("x", 33), false},
	} {
		if _, err := New(t.TempDir(), test.name); (err == nil) != test.valid {
			t.Errorf("New(%q): %v, want valid = %t", test.name, err, test.valid)
		}
	}
}

func TestAcquire(t *testing.T) {
	cluster, err := New(t.TempDir(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cluster.Folder, 0o700); err != nil { // as after a power failure
		t.Fatal(err)
	}
	if state, err := cluster.State(); state != nil || err != nil {
		t.Errorf("State of one that does not run: %v, %v", state, err)
	}
	lock, err := cluster.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cluster.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was left behind is still there: %v", err)
	}
	if err := cluster.MustBeFree(); err == nil || !strings.Contains(err.Error(), "cluster stop --name dev") {
		t.Errorf("MustBeFree gives %v, want an error that says what to do", err)
	}
	if _, err := cluster.Acquire(); err == nil {
		t.Error("a second supervisor is let in")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.MustBeFree(); err != nil {
		t.Errorf("after the supervisor's end: %v", err)
	}
}
