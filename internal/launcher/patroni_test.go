package launcher

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startPostmaster starts a process of PostgreSQL's name, which PGDATA names as its own.
func startPostmaster(t *testing.T, l *launch) *exec.Cmd {
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
	return command
}

// TestSuperviseStartsPatroniAgain where it was killed and PostgreSQL goes on; not where it ends too soon, and not where
// there is no PostgreSQL.
func TestSuperviseStartsPatroniAgain(t *testing.T) {
	// Each start ends itself when answering says so, and gives up where that never happens.
	const forEver = `echo x >>starts; n=$(wc -l <starts); i=0
until [ -e end$n ]; do sleep 0.05; i=$((i+1)); [ $i -lt 1200 ] || exit 9; done
kill -KILL $$`
	const twice = "[ -e end2 ] && echo x >>starts && rm $PGDATA/postmaster.pid && exit 7\n" + forEver
	for _, c := range []struct {
		what, script   string
		settles        bool
		postgres       bool
		status, starts int
	}{
		{"it had taken its place", twice, true, true, 7, 3},
		{"it ended before", twice, false, true, 137, 1},
		{"there is no PostgreSQL", forEver, true, false, 137, 1},
		{"it ends again and again", forEver, true, true, 137, 1 + maxRestarts},
	} {
		l, dir := patroni(t, "PGDATA=$(cat pgdata 2>/dev/null)\n"+c.script)
		l.rest = answering(t, dir, c.settles)
		if c.postgres {
			startPostmaster(t, l)
			put(t, filepath.Join(dir, "pgdata"), l.settings.PGData)
		}
		var log bytes.Buffer
		status, err := supervise(l, &log)
		starts, _ := os.ReadFile(filepath.Join(dir, "starts"))
		if got := strings.Count(string(starts), "x"); status != c.status || got != c.starts || err != nil {
			t.Errorf("%s: status %d after %d starts, error %v, want %d after %d", c.what, status, got, err, c.status, c.starts)
		}
	}
}

// answering is a Patroni that has taken its place, or one that hasn't yet. Once the launcher knows that of the n-th start,
// as what it asks next shows, there is the file end<n> in dir.
func answering(t *testing.T, dir string, settled bool) (url string) {
	t.Helper()
	var mu sync.Mutex
	starts, answered := 0, false // answered: the last question was whether it is ready
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		readiness := r.URL.Path == "/readiness"
		if answered && (!readiness || !settled) {
			starts++
			put(t, filepath.Join(dir, fmt.Sprintf("end%d", starts)), "")
		}
		answered = readiness
		if readiness && !settled {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// hanging is a Patroni that has taken its place, and doesn't answer a question for which this holds: whether it lives, which
// is asked after the first answer, or another one.
func hanging(t *testing.T, hangs func(liveness bool) bool) (url string) {
	t.Helper()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if hangs(r.URL.Path == "/liveness") {
			<-hang
		}
	}))
	t.Cleanup(func() { close(hang); server.Close() })
	return server.URL
}

// TestSuperviseEndsAPatroniThatHangs: it answered once, and doesn't any more.
func TestSuperviseEndsAPatroniThatHangs(t *testing.T) {
	l, dir := patroni(t, "[ -e begun ] && exit 7; touch begun; exec sleep 600")
	startPostmaster(t, l)
	l.rest = hanging(t, func(liveness bool) bool { return liveness })
	l.python = put(t, l.python, "#!/bin/sh\ncd "+dir+"\n[ -e begun ] && rm "+l.settings.PGData+"/postmaster.pid && exit 7; touch begun; exec sleep 600")
	var log bytes.Buffer
	if status, err := supervise(l, &log); status != 7 || err != nil || !exists(filepath.Join(dir, "begun"))() {
		t.Errorf("status %d, error %v, log: %s", status, err, &log)
	}
	if !strings.Contains(log.String(), "does not answer") {
		t.Errorf("the log doesn't say why: %s", &log)
	}
}

// TestSuperviseLetsPatroniStopInPeace: while it stops PostgreSQL it doesn't answer, for as long as that takes.
func TestSuperviseLetsPatroniStopInPeace(t *testing.T) {
	l, dir := patroni(t, "trap 'touch stopping; sleep 8; exit 3' TERM; touch begun; while :; do sleep 0.05; done")
	startPostmaster(t, l)
	var settled atomic.Bool
	l.rest = hanging(t, func(liveness bool) bool {
		if liveness {
			settled.Store(true)
		}
		return exists(filepath.Join(dir, "stopping"))()
	})
	var wait sync.WaitGroup
	wait.Go(func() {
		await(t, "the script", exists(filepath.Join(dir, "begun")))
		await(t, "an answer", settled.Load)
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	var log bytes.Buffer
	status, err := supervise(l, &log)
	wait.Wait()
	if status != 3 || err != nil {
		t.Errorf("status %d, error %v, log: %s", status, err, &log)
	}
}

// TestSuperviseTellsPatroniThatPostgresHasEnded at once, by a change that changes nothing.
func TestSuperviseTellsPatroniThatPostgresHasEnded(t *testing.T) {
	var asked atomic.Bool
	told := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		if r.Method == http.MethodPatch {
			user, password, _ := r.BasicAuth()
			body, _ := io.ReadAll(r.Body)
			told <- strings.Join([]string{r.URL.Path, user, password, string(body)}, " ")
		}
	}))
	t.Cleanup(server.Close)
	l, dir := patroni(t, "while [ ! -e told ]; do sleep 0.05; done; exit 3")
	l.rest = server.URL
	command := startPostmaster(t, l)
	var wait sync.WaitGroup
	wait.Go(func() {
		await(t, "a question", asked.Load) // so that the launcher takes signals
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		select {
		case got := <-told:
			if want := "/config " + UserREST + ` one {"wake": null}`; got != want {
				t.Errorf("Patroni is told %q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Error("Patroni isn't told")
		}
		put(t, filepath.Join(dir, "told"), "")
	})
	status, err := supervise(l, io.Discard)
	wait.Wait()
	if status != 3 || err != nil {
		t.Errorf("status %d, error %v", status, err)
	}
}
