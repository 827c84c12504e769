// Package instance keeps the named clusters of a user apart: where each one's files are and whether it runs.
//
// Invariants:
//   - a cluster's lock is taken exactly as long as anything of it exists: its supervisor holds it, and its guard until
//     it has cleaned up;
//   - a folder whose lock is free belongs to nobody and may be removed.
package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/example/databases/dev/cluster/internal/controlplane"
)

// Instance is a named cluster, running or not.
type Instance struct {
	Name   string
	Folder string // all of a running cluster's files
	Log    string // what its supervisor says; kept when it ends
	lock   string
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// New returns the instance of a name whose files are below the cache folder.
func New(cache, name string) (*Instance, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("cluster name %q: it must be at most 32 lower-case letters, digits and inner hyphens", name)
	}
	clusters := filepath.Join(cache, "clusters")
	if err := os.MkdirAll(clusters, 0o700); err != nil {
		return nil, err
	}
	base := filepath.Join(clusters, name)
	return &Instance{Name: name, Folder: base, Log: base + ".log", lock: base + ".lock"}, nil
}

// Acquire makes the caller the instance's supervisor and removes what one that had no time to clean up left behind.
// The lock is given up when the file, and every copy of it that another process holds, is closed.
func (i *Instance) Acquire() (*os.File, error) {
	lock, err := i.tryLock()
	for tries := 0; err == nil && lock == nil && tries < 10; tries++ {
		time.Sleep(20 * time.Millisecond) // somebody may be asking Running, which takes the lock for a moment
		lock, err = i.tryLock()
	}
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, i.runningError()
	}
	if err := os.RemoveAll(i.Folder); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// MustBeFree returns an error if the instance runs.
func (i *Instance) MustBeFree() error {
	running, err := i.Running()
	if err == nil && running {
		return i.runningError()
	}
	return err
}

func (i *Instance) runningError() error {
	return fmt.Errorf("cluster %q is running: stop it with `cluster stop --name %s` or use another --name", i.Name, i.Name)
}

// Running says whether anything of the instance exists.
func (i *Instance) Running() (bool, error) {
	if _, err := os.Stat(i.lock); errors.Is(err, fs.ErrNotExist) {
		return false, nil // asking must not leave a file for every name that was ever asked for
	}
	lock, err := i.tryLock()
	if err != nil {
		return false, err
	}
	if lock == nil {
		return true, nil
	}
	return false, lock.Close()
}

// State returns the state of a running instance, and nil if it does not run.
func (i *Instance) State() (*controlplane.State, error) {
	running, err := i.Running()
	if err != nil || !running {
		return nil, err
	}
	return controlplane.ReadState(i.Folder)
}

// Stop asks the supervisor to stop and waits until nothing is left.
func (i *Instance) Stop(ctx context.Context) error {
	asked := false
	for {
		running, err := i.Running()
		if err != nil || !running {
			return err
		}
		if !asked {
			state, err := controlplane.ReadState(i.Folder)
			if err != nil {
				return err
			}
			if state != nil { // else it has only just begun, or is cleaning up
				// It may have ended by now; then its guard is cleaning up.
				if err := syscall.Kill(state.Supervisor, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("stop process %d of cluster %q: %w", state.Supervisor, i.Name, err)
				}
				asked = true
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster %q has not stopped: %w", i.Name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tryLock returns nil and no error if somebody else has the lock.
func (i *Instance) tryLock() (*os.File, error) {
	lock, err := os.OpenFile(i.lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return lock, nil
	}
	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", i.lock, err)
}
