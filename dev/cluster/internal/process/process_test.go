package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The test program is its own guard, and the supervisor that one test kills.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == GuardCommand:
		if err := RunGuard(os.Args[2], os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 3 && os.Args[1] == "supervise":
		supervise(os.Args[2])
	}
	os.Exit(m.Run())
}

// supervise runs a process that ignores polite signals, prints its identifier and waits to be killed.
func supervise(folder string) {
	guard, err := StartGuard(folder, nil)
	if err == nil {
		err = os.Mkdir(folder, 0o700)
	}
	pid := 0
	if err == nil {
		pid, err = NewGroup(guard).Start("stubborn", "/bin/sh", []string{"-c", "trap '' TERM INT HUP; while :; do sleep 1; done"},
			filepath.Join(folder, "log"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(pid)
	select {}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not after 5 s: %s", what)
}

func processGone(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || gone(p)
}

func folderGone(folder string) bool {
	_, err := os.Stat(folder)
	return errors.Is(err, fs.ErrNotExist)
}

func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cluster")
	supervisor := exec.Command(os.Args[0], "supervise", folder)
	supervisor.Stderr = os.Stderr
	out, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
		t.Fatalf("the supervisor started nothing: %v", err)
	}
	if processGone(pid) || folderGone(folder) {
		t.Fatal("there is nothing to outlive it")
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	eventually(t, "the process has ended", func() bool { return processGone(pid) })
	eventually(t, "the folder is gone", func() bool { return folderGone(folder) })
}

// The guard alone must do, since only Linux ends children by itself.
func TestGuardKillsWhatItWatches(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cluster")
	if err := os.MkdirAll(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	guard, err := StartGuard(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	if err := guard.watch(child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the process still runs")
	}
	if !folderGone(folder) {
		t.Error("the folder is left")
	}
}

func TestAKilledGuardIsNoticedAndReplaced(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cluster")
	guard, err := StartGuard(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := guard.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-guard.Ended()
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	if !folderGone(folder) {
		t.Error("the folder is left")
	}
}

func TestGroupReportsTheFirstToEnd(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cluster")
	guard, err := StartGuard(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	group := NewGroup(guard)
	lasting, err := group.Start("lasting", "/bin/sleep", []string{"60"}, filepath.Join(folder, "lasting.log"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = group.Start("failing", "/bin/sh", []string{"-c", "echo what happened >&2; exit 3"}, filepath.Join(folder, "failing.log"))
	if err != nil {
		t.Fatal(err)
	}
	var ended *EndedError
	if err := <-group.Failed(); !errors.As(err, &ended) {
		t.Fatalf("Failed() yields %v, want an EndedError", err)
	}
	want := EndedError{Name: "failing", Status: "exit status 3", Log: []string{"what happened"}}
	if !reflect.DeepEqual(*ended, want) {
		t.Errorf("Failed() yields %+v, want %+v", *ended, want)
	}
	if group.Ended("failing") == nil || group.Ended("lasting") != nil {
		t.Errorf("ended are failing: %v, lasting: %v", group.Ended("failing"), group.Ended("lasting"))
	}
	group.Stop()
	if !processGone(lasting) {
		t.Error("a process runs after Stop")
	}
	if _, err := group.Start("late", "/bin/sleep", []string{"60"}, filepath.Join(folder, "late.log")); err == nil {
		t.Error("Start after Stop succeeds")
	}
	if err := guard.Release(); err != nil {
		t.Error(err)
	}
	if !folderGone(folder) {
		t.Error("the folder is left")
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 1000) + "\n"
	for _, test := range []struct {
		sentence string
		content  string
		want     []string
	}{
		{"an empty file has no lines", "", nil},
		{"a short file is returned whole", "a\nb\n", []string{"a", "b"}},
		{"of more lines the last are returned", "a\nb\nc\nd\n", []string{"b", "c", "d"}},
		{"a last line needs no end", "a\nb", []string{"a", "b"}},
		{"only the end of a big file is read", strings.Repeat(long, 200) + "y\nz\n", []string{long[:1000], "y", "z"}},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Tail(file, 3)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("Tail: %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
