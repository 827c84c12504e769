package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/example/databases/dev/cluster/internal/controlplane"
)

// program is this program, built for the tests, which run it as its users do.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	folder, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "cluster")
	for _, command := range []*exec.Cmd{
		exec.Command("go", "build", "-o", program, "."),
		exec.Command(program, "build"), // minutes, if nobody has done it before
	} {
		command.Stderr = os.Stderr
		if err := command.Run(); err != nil {
			fmt.Fprintln(os.Stderr, command, err)
			return 1
		}
	}
	return m.Run()
}

// running is a `cluster run`.
type running struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	folder  string // that of its cluster
	state   *controlplane.State
}

// run starts a cluster and returns when it is ready.
func run(t *testing.T, arguments ...string) *running {
	t.Helper()
	r := &running{command: exec.Command(program, append([]string{"run"}, arguments...)...)}
	r.command.Stderr = &r.stderr
	// A cluster's folder must be alone in its parent, to see that nothing is left there.
	r.command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var err error
	if r.stdin, err = r.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.command.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	kubeconfig, ok := strings.CutPrefix(line, readyPrefix)
	if err != nil || !ok {
		_ = r.command.Wait()
		t.Fatalf("the cluster did not start (%v); it wrote %q and\n%s", err, line, r.stderr.String())
	}
	r.folder = filepath.Dir(kubeconfig)
	if r.state, err = controlplane.ReadState(r.folder); err != nil || r.state == nil {
		t.Fatalf("read the cluster's state: %v, %v", r.state, err)
	}
	return r
}

// mustLeaveNothing fails unless the processes and the folder go away at once.
func (r *running) mustLeaveNothing(t *testing.T) {
	t.Helper()
	var left []string
	for range 1000 {
		left = nil
		for _, component := range r.state.Components {
			// That process may be gone and its number in use by another, which then is not this component.
			arguments, err := exec.Command("ps", "-o", "stat=,args=", "-p", fmt.Sprint(component.PID)).Output()
			if err == nil && strings.Contains(string(arguments), component.Name) && !strings.HasPrefix(string(arguments), "Z") {
				left = append(left, component.Name)
			}
		}
		entries, err := os.ReadDir(filepath.Dir(r.folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			left = append(left, entry.Name())
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left after 10 s: %q", left)
}

func TestNothingIsLeft(t *testing.T) {
	for _, test := range []struct {
		sentence string
		end      func(*testing.T, *running)
		status   string
		says     string
	}{
		{"after its supervisor is killed", func(t *testing.T, r *running) {
			send(t, r, syscall.SIGKILL)
		}, "signal: killed", ""},
		{"after being terminated", func(t *testing.T, r *running) {
			send(t, r, syscall.SIGTERM)
		}, "exit status 0", ""},
		{"after Ctrl-C, even if it is pressed often", func(t *testing.T, r *running) {
			for range 20 {
				send(t, r, syscall.SIGINT)
			}
		}, "exit status 0", ""},
		{"after its standard input closes", func(t *testing.T, r *running) {
			if err := r.stdin.Close(); err != nil {
				t.Fatal(err)
			}
		}, "exit status 0", ""},
		{"after a component crashes, which it reports", func(t *testing.T, r *running) {
			if err := syscall.Kill(r.state.Components[1].PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, "exit status 1", "kube-apiserver ended unexpectedly: signal: killed\nits log ends with:\n"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			r := run(t, "--until-stdin-closes", "--components=etcd,kube-apiserver")
			test.end(t, r)
			_ = r.command.Wait()
			if got := r.command.ProcessState.String(); got != test.status {
				t.Errorf("it ended with %s, want %s", got, test.status)
			}
			if !strings.Contains(r.stderr.String(), test.says) {
				t.Errorf("it does not say %q but\n%s", test.says, r.stderr.String())
			}
			r.mustLeaveNothing(t)
		})
	}
}

func send(t *testing.T, r *running, signal syscall.Signal) {
	t.Helper()
	if err := r.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func TestAuditLogHoldsEachRequestOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	r := run(t, "--components=etcd,kube-apiserver", "--audit-log="+file)
	server := r.state.Components[1]
	server.Health = "https://" + server.Address + "/api/v1/namespaces/default/pods"
	if err := server.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, r, syscall.SIGTERM)
	_ = r.command.Wait()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(content)) {
		var event struct {
			Level, RequestURI string
			User              struct{ Username string }
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if event.RequestURI == "/api/v1/namespaces/default/pods" && event.User.Username == "admin" && event.Level == "Metadata" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d lines for the request, want 1", found)
	}
}

// cluster runs the program to its end and returns what it wrote and its exit status.
func cluster(arguments ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		return "", err.Error(), -1
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

func TestNamedCluster(t *testing.T) {
	name := "test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		cluster("stop", "--name", name)
		removeFiles(t, name)
	})
	for _, step := range []struct {
		sentence  string
		arguments []string
		status    int
		out, errs string
	}{
		{"there is no status before it starts", []string{"status", "--name", name}, 1, "", "cluster start --name " + name},
		{"nor is there a kubectl", []string{"kubectl", "--name", name, "version"}, 1, "", "cluster start --name " + name},
		{"it starts", []string{"start", "--name", name}, 0, "export KUBECONFIG=", "cluster stop --name " + name},
		{"it is healthy", []string{"status", "--name", name}, 0, "kube-scheduler ", ""},
		{"it cannot be started twice", []string{"start", "--name", name}, 1, "", "is running"},
		{"its kubectl finds it", []string{"kubectl", "--name", name, "get", "namespaces"}, 0, "kube-system ", ""},
		{"its kubectl is of its version", []string{"kubectl", "--name", name, "--", "version"}, 0, "Server Version: v1.37.", ""},
		{"it stops", []string{"stop", "--name", name}, 0, "", "has stopped"},
		{"stopping again is no error", []string{"stop", "--name", name}, 0, "", "is not running"},
	} {
		out, errs, status := cluster(step.arguments...)
		if status != step.status || !strings.Contains(out, step.out) || !strings.Contains(errs, step.errs) {
			t.Fatalf("%s: exit status %d, want %d; it wrote\n%s\nand\n%s", step.sentence, status, step.status, out, errs)
		}
	}
}

// removeFiles removes the lock and the log that a named cluster leaves for the next of its name.
func removeFiles(t *testing.T, name string) {
	t.Helper()
	instance, err := named(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(instance.Folder + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		arguments string
		status    int
		says      string
	}{
		{"", 2, "usage: cluster COMMAND"},
		{"fly", 2, `there is no command "fly"`},
		{"run --components=etcd", 2, "a cluster needs kube-apiserver"},
		{"run --port=99999", 2, "between 0 and 65535"},
		{"run --audit-log=/does/not/exist.log", 2, "its folder does not exist"},
		{"status --fly", 2, "cluster status --help"},
		{"stop now", 2, `takes no argument "now"`},
		{"status --name=../x", 1, "lower-case letters"},
		{"start --help", 0, "-audit-log file"},
	} {
		_, errs, status := cluster(strings.Fields(test.arguments)...)
		if status != test.status || !strings.Contains(errs, test.says) {
			t.Errorf("cluster %s: exit status %d, want %d and %q; it wrote\n%s", test.arguments, status, test.status, test.says, errs)
		}
	}
}
