package postgrestest

import (
	"bufio"
	"context"
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

	"github.com/jackc/pgx/v5"
)

// ownerEnv names the folder in which the test binary then owns a server until
// it is killed.
const ownerEnv = "POSTGRESTEST_OWNER"

func TestNothingOutlivesAKilledOwner(t *testing.T) {
	dir := openFolder(t)
	owner, stdout := startOwner(t, dir)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var postmaster, backend int
	if _, err := fmt.Sscan(line, &postmaster, &backend); err != nil {
		t.Fatalf("the owner said %q: %v", line, err)
	}
	for _, pid := range []int{postmaster, backend} {
		if !alive(pid) {
			t.Fatalf("process %d isn't there", pid)
		}
	}
	kill(t, owner)
	await(t, "postmaster to end", func() bool { return !alive(postmaster) })
	await(t, "backend to end", func() bool { return !alive(backend) })
	await(t, "folder to go", func() bool { return len(glob(t, dir, "*")) == 0 })
}

func TestNothingOutlivesAnOwnerKilledDuringInitdb(t *testing.T) {
	dir := openFolder(t)
	owner, _ := startOwner(t, dir)
	await(t, "initdb to write", func() bool { return len(glob(t, dir, "*/data/global/*")) > 0 })
	kill(t, owner)
	await(t, "folder to go", func() bool { return len(glob(t, dir, "*")) == 0 })
}

// openFolder makes a folder for the folders of servers, which another user may
// enter, unlike t.TempDir's.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgrestest-owner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startOwner starts a process that owns a server with a folder in dir.
func startOwner(t *testing.T, dir string) (*exec.Cmd, io.Reader) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	owner.Stderr = os.Stderr
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Process.Kill() })
	return owner, stdout
}

func kill(t *testing.T, owner *exec.Cmd) {
	t.Helper()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for the %s", what)
		}
	}
}

// ownServerForever launches a server, says which processes its postmaster and
// its session are, and runs a statement that doesn't end.
func ownServerForever(dir string) {
	ctx := context.Background()
	server, err := Launch(ctx, Options{Major: 16, Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	conn, err := pgx.Connect(ctx, server.SuperuserDSN())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(server.process.cmd.Process.Pid, conn.PgConn().PID())
	_, err = conn.Exec(ctx, "SELECT pg_sleep(3600)")
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// alive reports whether a process exists and hasn't ended: in a container
// without an init, an orphan that has ended stays as a zombie.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
