package launcher

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patroni is a launch whose Python is a shell script.
func patroni(t *testing.T, script string) (*launch, string) {
	t.Helper()
	dir := t.TempDir()
	l := &launch{
		settings:    Settings{Template: "scope: db", RunDir: dir, CredentialsDir: secret(t, "one")},
		pod:         testPod(15),
		python:      put(t, filepath.Join(dir, "python"), "#!/bin/sh\ncd "+dir+"\n"+script),
		credentials: Credentials{Superuser: "one", Replication: "one", REST: "one"},
	}
	return l, dir
}

// secret is a folder as the kubelet mounts it.
func secret(t *testing.T, password string) string {
	t.Helper()
	dir := t.TempDir()
	change(t, dir, password)
	for _, key := range []string{KeySuperuser, KeyReplication, KeyREST} {
		if err := os.Symlink(filepath.Join("..data", key), filepath.Join(dir, key)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// change swaps the link to the keys.
func change(t *testing.T, dir, password string) {
	t.Helper()
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	for _, key := range []string{KeySuperuser, KeyReplication, KeyREST} {
		put(t, filepath.Join(dir, version, key), password)
	}
	link := filepath.Join(dir, "..new")
	if err := os.Symlink(version, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long for " + what)
		}
	}
}

func exists(name string) func() bool {
	return func() bool { _, err := os.Stat(name); return err == nil }
}

// The tests of this file aren't parallel: signals and children belong to the process.

func TestSuperviseReturnsTheStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "true & exec sleep 0.1": 0} {
		l, _ := patroni(t, script)
		var log bytes.Buffer
		if got, err := supervise(l, &log); got != want || err != nil {
			t.Errorf("%q: status %d, error %v, want %d", script, got, err, want)
		}
	}
	l, dir := patroni(t, "")
	l.python = filepath.Join(dir, "missing")
	if status, err := supervise(l, &bytes.Buffer{}); status == 0 || err == nil {
		t.Errorf("a missing program: status %d, error %v", status, err)
	}
}

func TestSuperviseHandsOnSignals(t *testing.T) {
	for signal, want := range map[syscall.Signal]string{syscall.SIGINT: "TERM", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		l, dir := patroni(t, `
for name in TERM HUP INT; do trap "echo $name >got; exit 3" $name; done
touch ready
while :; do sleep 0.05; done`)
		var wait sync.WaitGroup
		wait.Go(func() {
			await(t, "the script", exists(filepath.Join(dir, "ready")))
			if err := syscall.Kill(os.Getpid(), signal); err != nil {
				t.Error(err)
			}
		})
		status, err := supervise(l, &bytes.Buffer{})
		wait.Wait()
		got, _ := os.ReadFile(filepath.Join(dir, "got"))
		if status != 3 || err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: status %d, error %v, Patroni got %q, want %q", signal, status, err, got, want)
		}
	}
}

func TestSuperviseReloadsWhenTheSecretChanges(t *testing.T) {
	l, dir := patroni(t, `
trap "exit 5" HUP
touch ready
while :; do sleep 0.05; done`)
	var wait sync.WaitGroup
	wait.Go(func() {
		await(t, "the script", exists(filepath.Join(dir, "ready")))
		change(t, l.settings.CredentialsDir, "two")
	})
	var log bytes.Buffer
	status, err := supervise(l, &log)
	wait.Wait()
	if status != 5 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
	content, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil || !strings.Contains(string(content), `"password": "two"`) {
		t.Errorf("the configuration doesn't have the new password: %v\n%s", err, content)
	}
	if strings.Contains(log.String(), "two") {
		t.Errorf("the log has the password: %s", &log)
	}
}

func TestRefreshKeepsWhatItHasWhileTheSecretIsBroken(t *testing.T) {
	for name, password := range map[string]string{"empty": "", "binary": "a\xff", "lines": "a\nb"} {
		l, dir := patroni(t, "")
		change(t, l.settings.CredentialsDir, password)
		changed, err := l.refresh()
		if changed || err == nil || exists(filepath.Join(dir, ConfigFile))() || l.credentials.REST != "one" {
			t.Errorf("%s: changed %v, error %v", name, changed, err)
		}
		change(t, l.settings.CredentialsDir, "two\n")
		if changed, err := l.refresh(); !changed || err != nil || l.credentials.REST != "two" {
			t.Errorf("mended: changed %v, error %v", changed, err)
		}
		if changed, err := l.refresh(); changed || err != nil {
			t.Errorf("unchanged: changed %v, error %v", changed, err)
		}
	}
}

func TestCommandKeepsItsSettingsFromPatroni(t *testing.T) {
	l, dir := patroni(t, "")
	t.Setenv(EnvTemplate, "scope: db")
	t.Setenv("TMPDIR", "/elsewhere")
	_, env := l.command()
	for _, variable := range env {
		if strings.HasPrefix(variable, "PATRONI_") || variable == "TMPDIR=/elsewhere" {
			t.Errorf("the environment has %s", variable)
		}
	}
	if got := env[len(env)-1]; got != "TMPDIR="+dir {
		t.Errorf("the environment ends with %s", got)
	}
}

func TestCopyTreeTwice(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	put(t, filepath.Join(from, "bin", "python"), "one")
	for _, want := range []string{"one", "two"} {
		put(t, filepath.Join(from, "bin", "python"), want)
		if err := copyTree(from, to); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(to, "bin", "python")
		content, err := os.ReadFile(target)
		if err != nil || string(content) != want {
			t.Errorf("content %q, error %v, want %q", content, err, want)
		}
		if stat, err := os.Stat(target); err != nil || stat.Mode().Perm() != 0o755 {
			t.Errorf("mode %v, error %v", stat, err)
		}
	}
	if err := os.Symlink("python", filepath.Join(from, "bin", "link")); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err == nil {
		t.Error("a link is copied as if it were a file")
	}
}
