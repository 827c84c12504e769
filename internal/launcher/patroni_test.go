package launcher

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// postmaster is a process of PostgreSQL's name, which PGDATA names as its own.
func postmaster(t *testing.T, l *launch) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "postgres")
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() }) // and supervise, or nobody, waits for it
	l.settings.PGData = t.TempDir()
	put(t, filepath.Join(l.settings.PGData, "postmaster.pid"), fmt.Sprintf("%d\n%s\n", command.Process.Pid, l.settings.PGData))
}

// TestSuperviseStartsPatroniAgain where it was killed and PostgreSQL goes on; not where it ends too soon, and not where
// there is no PostgreSQL.
func TestSuperviseStartsPatroniAgain(t *testing.T) {
	const twice = "echo x >>starts; [ $(wc -l <starts) = 3 ] && exit 7; sleep 0.3; kill -KILL $$"
	for _, c := range []struct {
		what           string
		steady         time.Duration
		postgres       bool
		status, starts int
	}{
		{"it had run for long", 100 * time.Millisecond, true, 7, 3},
		{"it ended too soon", time.Minute, true, 137, 1},
		{"there is no PostgreSQL", 100 * time.Millisecond, false, 137, 1},
	} {
		l, dir := patroni(t, twice)
		l.steady = c.steady
		if c.postgres {
			postmaster(t, l)
		}
		var log bytes.Buffer
		status, err := supervise(l, &log)
		starts, _ := os.ReadFile(filepath.Join(dir, "starts"))
		if got := strings.Count(string(starts), "x"); status != c.status || got != c.starts || err != nil {
			t.Errorf("%s: status %d after %d starts, error %v, want %d after %d", c.what, status, got, err, c.status, c.starts)
		}
	}
}

// TestSuperviseEndsAPatroniThatHangs: it answered once, and doesn't any more.
func TestSuperviseEndsAPatroniThatHangs(t *testing.T) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", PortREST))
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	var asked atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { //nolint:gosec // of a test
		if asked.Add(1) > 1 {
			<-hang
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { close(hang); _ = server.Close() })
	l, dir := patroni(t, "[ -e begun ] && exit 7; touch begun; exec sleep 600")
	l.steady, l.pod.IP = 100*time.Millisecond, "127.0.0.1"
	postmaster(t, l)
	var log bytes.Buffer
	if status, err := supervise(l, &log); status != 7 || err != nil || !exists(filepath.Join(dir, "begun"))() {
		t.Errorf("status %d, error %v, log: %s", status, err, &log)
	}
	if !strings.Contains(log.String(), "does not answer") {
		t.Errorf("the log doesn't say why: %s", &log)
	}
}
