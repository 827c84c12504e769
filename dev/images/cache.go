package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// keepFor is how long an outdated archive stays: somebody may be importing it.
const keepFor = time.Hour

// cache is a folder of finished files, held by one process at a time.
type cache struct {
	dir  string
	lock *os.File
}

func openCache(ctx context.Context) (*cache, error) {
	parent, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	c := &cache{dir: filepath.Join(parent, "databases-dev", "images")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	if c.lock, err = os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			c.sweep()
			return c, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", c.dir, err)
		}
		if !waiting {
			say("waiting for another build of images")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *cache) close() { _ = c.lock.Close() } // which unlocks it

// sweep removes what interrupted builds left. The lock is held, so nobody writes.
func (c *cache) sweep() {
	left, _ := filepath.Glob(filepath.Join(c.dir, ".new-*")) // the pattern is right
	for _, name := range left {
		_ = os.RemoveAll(name) // the next one tries again
	}
}

// file is the cached file of a kind and key; make writes it where there is none.
func (c *cache) file(kind, key, suffix string, build func(path string) error) (path string, made bool, err error) {
	path = filepath.Join(c.dir, kind+"-"+key[:16]+suffix)
	if _, err := os.Stat(path); err == nil {
		return path, false, nil
	}
	temporary, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(temporary) // sweep does
	unfinished := filepath.Join(temporary, "file")
	if err := build(unfinished); err != nil {
		return "", false, err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return "", false, err
	}
	c.prune(kind+"-", suffix, path)
	return path, true, nil
}

// prune removes older builds of the same thing.
func (c *cache) prune(prefix, suffix, keep string) {
	found, _ := filepath.Glob(filepath.Join(c.dir, prefix+strings.Repeat("?", 16)+suffix)) // the pattern is right
	for _, name := range found {
		if stat, err := os.Stat(name); err == nil && name != keep && time.Since(stat.ModTime()) > keepFor {
			_ = os.Remove(name) // the next one tries again
		}
	}
}

// hash joins parts so that no two lists have the same.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}

// export links or copies an archive to where the user wants it.
func export(path, dir, name string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	target := filepath.Join(dir, name+".tar")
	temporary := fmt.Sprintf("%s.new-%d", target, os.Getpid())
	if err := os.Link(path, temporary); err != nil {
		if err := copyFile(path, temporary); err != nil {
			return "", err
		}
	}
	if err := os.Rename(temporary, target); err != nil {
		return "", err
	}
	_ = os.Remove(temporary) // renaming a link to its own file leaves both names
	return target, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
