package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/example/databases/internal/postgres/postgrestest"
)

// Names inside the demo's folder.
const (
	programs      = "bin"
	controllerLog = "controller.log"
	controllerPID = "controller.pid"
	clusterLog    = "cluster.log"
)

// stage is what the story is played on.
type stage struct {
	screen     *screen
	end        context.CancelCauseFunc // ends the story
	checkout   string
	folder     string    // all files of the demo, and the shell's working folder
	noNode     string    // why the machine can't have a node; empty where it has one
	images     []string  // archives for the node
	kubernetes time.Time // when the control plane was ready
	postgres   *postgrestest.Server
	shell      *shell
	closers    []func() error
}

// atEnd does something when the demo ends, what was begun last first.
func (s *stage) atEnd(do func() error) { s.closers = append(s.closers, do) }

// close ends and removes everything.
func (s *stage) close() error {
	var failed []error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		do := s.closers[last]
		s.closers = s.closers[:last]
		failed = append(failed, do())
	}
	return errors.Join(failed...)
}

// explain says why the story ended early.
func (s *stage) explain(err error) {
	defer func() { s.screen.complain("%v", err) }() // last, where it is seen
	s.screen.line("")
	if s.folder == "" {
		return
	}
	log := controllerLog
	if ended, ok := errors.AsType[*endedError](err); ok {
		log = ended.log
	}
	if text := tail(s.file(log), 20); text != "" {
		s.screen.line(log + " ends with:\n")
		s.screen.output(text)
		s.screen.line("")
	}
}

func (s *stage) file(name string) string { return filepath.Join(s.folder, name) }

// write writes a file that only its owner may read.
func (s *stage) write(name, content string) error {
	return os.WriteFile(s.file(name), []byte(content), 0o600)
}

// environment is that of every program but the builds: nothing of the user's configuration changes the demo, and none
// of it is written to. HOME is where kubectl and psql keep files.
func (s *stage) environment(more ...string) []string {
	return append([]string{
		"PATH=" + s.file(programs) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + s.folder,
		"TMPDIR=" + s.folder,
		"LC_ALL=C",
	}, more...)
}

// reap removes the folder $1 when its input ends, which is when the demo lets go or is no more. A controller that is
// left then is killed. The cluster has its own guard, for which the loop waits.
const reap = `
exec 2>/dev/null
cat >/dev/null
if read -r pid <"$1/` + controllerPID + `"; then
	kill -KILL "$pid"
fi
n=0
until rm -rf "$1" && [ ! -e "$1" ]; do
	[ $n -lt 300 ] || exit 1
	sleep 0.1
	n=$((n + 1))
done
`

// makeFolder makes the demo's folder and starts what removes it.
func (s *stage) makeFolder() error {
	folder, err := os.MkdirTemp("", "databases-demo-") // which is mode 0700
	if err != nil {
		return err
	}
	reaper := exec.Command("/bin/sh", "-c", reap, "databases-demo-reaper", folder)
	reaper.Dir = "/"
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the demo's group doesn't end it
	hold, err := reaper.StdinPipe()
	if err == nil {
		err = reaper.Start()
	}
	if err != nil {
		return errors.Join(err, os.Remove(folder))
	}
	s.folder = folder
	s.atEnd(func() error { return removeFolder(folder, reaper, hold) })
	return os.Mkdir(s.file(programs), 0o700)
}

func removeFolder(folder string, reaper *exec.Cmd, hold io.Closer) error {
	if err := errors.Join(hold.Close(), reaper.Wait()); err != nil {
		return fmt.Errorf("removing %s: %w", folder, err)
	}
	return nil
}

// findCheckout finds the root of the repository above the working folder.
func findCheckout() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		gomod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(gomod), "module github.com/example/databases\n") {
			return folder, nil
		}
	}
	return "", errors.New("run this inside the checkout: go run ./dev/demo")
}
