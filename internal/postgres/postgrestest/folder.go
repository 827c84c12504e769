package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Names inside a server's folder.
const (
	dataDir = "data"
	logFile = "log"
)

// folder is a server's temporary folder. It has one remover, the reaper: a
// shell that waits until nobody holds the other end of its pipe open. So the
// folder goes away, and a server still running in it too, both on remove and
// when this process dies.
type folder struct {
	dir     string
	account *syscall.Credential // the owner; nil is this process's own user
	reaper  *exec.Cmd
	hold    *os.File // our end of the pipe; nil once removed
}

// reap removes the folder $1 after its input ends. The postmaster, if there is
// one, takes its file postmaster.pid away when it and its children are gone.
// The last loop is for stragglers that still write.
const reap = `
exec 2>/dev/null
cat >/dev/null
pidfile=$1/` + dataDir + `/postmaster.pid
if read -r pid <"$pidfile"; then
	kill -QUIT "$pid"
	n=0
	while [ -e "$pidfile" ] && kill -0 "$pid" && [ $n -lt 100 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	[ -e "$pidfile" ] && kill -KILL "$pid"
fi
n=0
until rm -rf "$1" && [ ! -e "$1" ]; do
	[ $n -lt 100 ] || exit 1
	sleep 0.1
	n=$((n + 1))
done
`

// newFolder makes a folder in parent that account owns and nobody else enters.
func newFolder(parent string, account *syscall.Credential) (*folder, error) {
	if parent == "" {
		parent = os.TempDir()
		if !canEnter(parent, account) {
			parent = "/tmp"
		}
	}
	if !canEnter(parent, account) {
		return nil, fmt.Errorf("folder for PostgreSQL: user %d may not enter %s", account.Uid, parent)
	}
	dir, err := os.MkdirTemp(parent, "databases-postgres-")
	if err != nil {
		return nil, fmt.Errorf("folder for PostgreSQL: %w", err)
	}
	f := &folder{dir: dir, account: account}
	if err := f.startReaper(); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := f.own(dir); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// startReaper starts the reaper in a session of its own, so that a signal to
// this process's group doesn't end it.
func (f *folder) startReaper() error {
	wait, hold, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("reaper of %s: %w", f.dir, err)
	}
	reaper := exec.Command("/bin/sh", "-c", reap, "postgrestest-reaper", f.dir)
	reaper.Dir = "/"
	reaper.Stdin = wait
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = errors.Join(reaper.Start(), wait.Close())
	if err != nil {
		return errors.Join(fmt.Errorf("reaper of %s: %w", f.dir, err), hold.Close())
	}
	f.reaper, f.hold = reaper, hold
	return nil
}

// remove lets the reaper remove the folder and waits for it. It may be called
// twice.
func (f *folder) remove() error {
	if f.hold == nil {
		return nil
	}
	err := errors.Join(f.hold.Close(), f.reaper.Wait())
	f.hold = nil
	if err != nil {
		return fmt.Errorf("removing %s: %w", f.dir, err)
	}
	return nil
}

// path returns the path of a name inside the folder.
func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// write writes a file that only the server's user may read.
func (f *folder) write(name string, content []byte) error {
	path := f.path(name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return f.own(path)
}

// own gives a file to the server's user.
func (f *folder) own(path string) error {
	if f.account == nil {
		return nil
	}
	return os.Chown(path, int(f.account.Uid), int(f.account.Gid))
}
