package launcher

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// credentialsInterval is how often the mounted Secret is looked at. The kubelet takes up to a minute to change it.
const credentialsInterval = 3 * time.Second

// supervise starts Patroni and does a first process's duties: it hands on signals, reaps what is left to it, starts
// Patroni again where it was killed or hangs, and returns Patroni's exit status. os/exec isn't used: it would quarrel with
// reaping about who waits for whom.
func supervise(l *launch, log io.Writer) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	patroni, err := l.startPatroni()
	if err != nil {
		return 1, err
	}
	defer func() { patroni.stop() }()
	ticker := time.NewTicker(credentialsInterval)
	defer ticker.Stop()
	for stopping := false; ; {
		select {
		case received := <-signals:
			if received != syscall.SIGCHLD {
				if received != syscall.SIGHUP {
					stopping = true
					patroni.stop() // a Patroni that stops doesn't answer either, while PostgreSQL ends in peace
				}
				hand(patroni.pid, received, log)
				continue
			}
			server := postmaster(l.settings.PGData)
			status, ended, others := reap(patroni.pid)
			if !ended {
				if slices.Contains(others, server) && !stopping {
					go l.wake(l.credentials.REST, log)
				}
				continue
			}
			if patroni.stop(); stopping || !l.mayRestart(patroni) {
				return status, nil
			}
			say(log, "Patroni has ended with status %d: it is started again; PostgreSQL goes on", status)
			l.restarts = append(l.restarts, time.Now())
			if patroni, err = l.startPatroni(); err != nil {
				return 1, err
			}
		case <-patroni.hung:
			if !stopping {
				l.endHung(patroni, log)
			}
		case <-ticker.C:
			changed, err := l.refresh()
			if err != nil {
				say(log, "keeping the credentials in use: %v", err)
			} else if changed {
				say(log, "the Secret has changed: reloading Patroni")
				hand(patroni.pid, syscall.SIGHUP, log)
			}
		}
	}
}

// hand gives a signal to Patroni. It stops on SIGTERM; SIGINT is the official image's STOPSIGNAL.
func hand(patroni int, received os.Signal, log io.Writer) {
	number, ok := received.(syscall.Signal)
	if !ok {
		return
	}
	if number == syscall.SIGINT || number == syscall.SIGQUIT {
		number = syscall.SIGTERM
	}
	if err := syscall.Kill(patroni, number); err != nil && !errors.Is(err, syscall.ESRCH) {
		say(log, "sending Patroni the signal %s: %v", number, err)
	}
}

// reap waits for every child that has ended, and returns those but Patroni. One SIGCHLD may stand for several.
func reap(patroni int) (status int, ended bool, others []int) {
	for {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &state, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return status, ended, others
		case pid == patroni && (state.Exited() || state.Signaled()):
			status, ended = exitStatus(state), true
		case state.Exited() || state.Signaled():
			others = append(others, pid)
		}
	}
}

// exitStatus is what a shell would say.
func exitStatus(state syscall.WaitStatus) int {
	if state.Signaled() {
		return 128 + int(state.Signal())
	}
	return state.ExitStatus()
}

// refresh writes the configuration anew if the Secret has changed. While the Secret is unreadable, what Patroni has
// stays.
func (l *launch) refresh() (changed bool, err error) {
	now, err := ReadCredentials(l.settings.CredentialsDir)
	if err != nil || now == l.credentials {
		return false, err
	}
	before := l.credentials
	l.credentials = now
	if err := l.writeConfig(); err != nil {
		l.credentials = before // so that the next look tries again
		return false, err
	}
	return true, nil
}

func say(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, "databases-patroni: "+format+"\n", args...) // there is nowhere else to say it
}
