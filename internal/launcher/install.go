package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Install copies the bundle and the running program into a folder that the pod's containers share. A second time, as
// after a restart of the init container, it overwrites.
func Install(destination string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	if err := copyTree(BundleDir, destination); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	if err := copyFile(program, filepath.Join(destination, Program), 0o755); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	return nil
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755) //nolint:gosec // programs, to be read by the pod's other user
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", name)
		}
		return copyFile(name, target, info.Mode().Perm())
	})
}

// copyFile makes a new file, and replaces one that is there by renaming: it may be a program that runs.
func copyFile(from, to string, mode fs.FileMode) error {
	err := copyNew(from, to, mode)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	temporary := to + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := copyNew(from, temporary, mode); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}

func copyNew(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from) //nolint:gosec // our own bundle
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // where the pod's template says
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
