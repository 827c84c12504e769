package launcher

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Patroni is asked whether it lives; one that didn't answer twice in time hangs. So it is killed within 3 seconds, and has
	// at least 6 more to answer again until the kubelet's fourth probe fails and ends the container, PostgreSQL with it.
	askInterval  = 500 * time.Millisecond
	askPatience  = time.Second
	unansweredAt = 2
	// More than maxRestarts within restartWindow end the container, where people and alerts see them.
	maxRestarts   = 5
	restartWindow = 10 * time.Minute
)

// process is Patroni's.
type process struct {
	pid int
	// settled says that Patroni has taken its place since it was started: it has read its store, and leads or follows. One
	// that ends before it has ends the container, and the kubelet waits longer from one end to the next.
	settled atomic.Bool
	// hung is told that Patroni answered once and doesn't any more.
	hung chan struct{}
	stop context.CancelFunc
}

// startPatroni starts Patroni and begins to ask it whether it lives.
func (l *launch) startPatroni() (*process, error) {
	argv, env := l.command()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}}) //nolint:gosec // the bundle's Python
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{pid: pid, hung: make(chan struct{}, 1), stop: stop}
	go p.ask(ctx, l.rest)
	return p, nil
}

// ask asks Patroni's REST interface, at this URL, until it has ended, and says each time that it hangs.
func (p *process) ask(ctx context.Context, rest string) {
	client := &http.Client{Timeout: askPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	answered, unanswered := false, 0
	for ticker := time.NewTicker(askInterval); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		path := "/readiness"
		if p.settled.Load() {
			path = "/liveness"
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, rest+path, nil)
		if err != nil {
			return
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				p.settled.Store(true)
			}
			answered, unanswered = true, 0 // whatever it says: the kubelet asks too
			continue
		}
		if unanswered++; answered && unanswered >= unansweredAt {
			select {
			case p.hung <- struct{}{}:
			default: // nobody has heard the last one yet
			}
		}
	}
}

// mayRestart says whether Patroni can be started again beside a PostgreSQL that goes on: it takes a running one over. It
// can't where something else of its own may go on, as a copy of the primary's data.
func (l *launch) mayRestart(p *process) bool {
	recent := 0
	for _, at := range l.restarts {
		if time.Since(at) < restartWindow {
			recent++
		}
	}
	return recent < maxRestarts && p.settled.Load() && postmasterRuns(l.settings.PGData)
}

// postmaster is the process that PostgreSQL's lock file names; 0 for none. A server that is stopped in peace removes it.
func postmaster(pgdata string) int {
	content, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid")) //nolint:gosec // named by the pod's own settings
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// postmasterRuns reports that the process that PostgreSQL's lock file names is one.
func postmasterRuns(pgdata string) bool {
	pid := postmaster(pgdata)
	if pid == 0 {
		return false
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == "postgres"
}

// wake lets Patroni look now, and not at its next loop, whether PostgreSQL runs. A change of its configuration does
// that; this one changes nothing.
func (l *launch) wake(password string, log io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*askPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, l.rest+"/config", strings.NewReader(`{"wake": null}`))
	if err != nil {
		return
	}
	request.SetBasicAuth(UserREST, password)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		say(log, "PostgreSQL has ended; Patroni sees it at its next loop: %v", err)
		return
	}
	_ = response.Body.Close()
	say(log, "PostgreSQL has ended: Patroni is told (%s)", response.Status)
}

// endHung kills a Patroni that hangs, so that it can be started again.
func (l *launch) endHung(p *process, log io.Writer) {
	if !l.mayRestart(p) {
		say(log, "Patroni does not answer")
		return // the kubelet ends the container
	}
	say(log, "Patroni does not answer: it is killed and started again; PostgreSQL goes on")
	hand(p.pid, syscall.SIGKILL, log)
}
