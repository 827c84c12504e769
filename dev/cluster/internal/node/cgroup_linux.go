package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupOf names the control group of a cluster, which is all that a folder's owner must know to remove it. The cluster's
// network devices have it as their alias.
func cgroupOf(folder string) string {
	digest := sha256.Sum256([]byte(folder))
	return "databases-" + hex.EncodeToString(digest[:6])
}

// makeCgroups makes a control group for a node and returns its name as kubelet wants it.
func makeCgroups(folder, name string) (string, error) {
	group := filepath.Join(cgroupOf(folder), name)
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil { // version 2
		if err := os.MkdirAll(filepath.Join(cgroupRoot, group), 0o755); err != nil {
			return "", err
		}
		return "/" + group, delegate(cgroupRoot, filepath.Join(cgroupRoot, cgroupOf(folder)))
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil {
		return "", err
	}
	for _, file := range hierarchies {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(file), group), 0o755); err != nil {
			return "", err
		}
	}
	return "/" + group, nil
}

// delegate lets the control groups below these, each in the one before it, use all controllers: kubelet looks for them.
func delegate(groups ...string) error {
	for _, group := range groups {
		controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for _, controller := range strings.Fields(string(controllers)) {
			// One that can't be had is not needed or kubelet's complaint is clearer.
			_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
	}
	return nil
}

// Remove removes what may outlive the machines of the cluster in a folder. Their processes must have ended.
func Remove(folder string) error {
	return errors.Join(removeDevices(cgroupOf(folder)), removeCgroups(folder))
}

func removeCgroups(folder string) error {
	for _, pattern := range []string{cgroupRoot, filepath.Join(cgroupRoot, "*")} {
		found, err := filepath.Glob(filepath.Join(pattern, cgroupOf(folder)))
		if err != nil {
			return err
		}
		for _, group := range found {
			if err := removeCgroup(group); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup removes a control group and those below it, waiting a little for processes that have just been killed.
func removeCgroup(group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.Reverse(groups) // the innermost first
	for _, path := range groups {
		for range 100 {
			// A control group is removed as an empty folder is, whatever files it shows.
			if err = os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				err = nil
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
