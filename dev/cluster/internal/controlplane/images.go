package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/example/databases/dev/cluster/internal/lock"
	"github.com/example/databases/dev/cluster/internal/node"
)

// bigImage is the size from which an archive is unpacked only once for all clusters. Importing a smaller one is quick,
// and it is more likely to be a program that changes with every test.
const bigImage = 32 << 20

// At most this many stocks are kept, and none that nobody has used for so long.
const mostStocks, unusedFor = 16, 7 * 24 * time.Hour

// stock keeps folders of containerd as they are after big images were imported, for the next clusters. There is one for
// each beginning of the list of images, oldest first, so that an image that has just been built costs its own import
// only.
//
// Stocks and clusters share files by hard links: what is in an image is never written to, so that a stock can be thrown
// away while others use the same files.
type stock struct {
	folder  string // of all stocks
	log     string // the file for what an importing containerd says
	machine *node.Machine
}

// split tells the images that come from a stock from those that are imported into every cluster.
func split(files []string) (big, small []string) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err == nil && info.Size() >= bigImage && node.Visible(file) {
			big = append(big, file)
		} else {
			small = append(small, file)
		}
	}
	return big, small
}

// fill gives the machine's containerd, which must not run yet, the images in the archives.
func (s stock) fill(ctx context.Context, files []string, progress func(string, ...any)) error {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	held, err := lock.Take(ctx, filepath.Join(s.folder, "lock"), func() { progress("waiting for another cluster that imports images") })
	if err != nil {
		return err
	}
	defer held.Close()
	archives, err := inspect(files)
	if err != nil {
		return err
	}
	last, now := "", time.Now()
	for i := range archives {
		kept := filepath.Join(s.folder, stockKey(archives[:i+1]))
		if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
			begun := time.Now()
			if err := s.unpack(ctx, last, kept, archives[i].file); err != nil {
				return err
			}
			progress("imported %s in %.1f s, for later clusters too", archives[i].file, time.Since(begun).Seconds())
		}
		_ = os.Chtimes(kept, now, now) // on failure it is thrown away earlier
		last = kept
	}
	s.prune(now)
	to := filepath.Join(s.machine.Folder, "var/lib/containerd")
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return link(ctx, last, to)
}

// archive is a file of images.
type archive struct {
	file string
	size int64
	made time.Time
}

// inspect returns the archives, oldest first.
func inspect(files []string) ([]archive, error) {
	var archives []archive
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive{file: file, size: info.Size(), made: info.ModTime()})
	}
	slices.SortStableFunc(archives, func(a, b archive) int { return a.made.Compare(b.made) })
	return archives, nil
}

// stockKey names a stock by the archives in it, and each of these as make would: by its name, size and time.
func stockKey(archives []archive) string {
	digest := sha256.New()
	for _, a := range archives {
		fmt.Fprintf(digest, "%q %d %d\n", a.file, a.size, a.made.UnixNano())
	}
	return hex.EncodeToString(digest.Sum(nil))[:16]
}

// importScript runs a containerd just for importing; $1 is its configuration, $2 its log and $3 the archive.
const importScript = `
containerd --config "$1" >"$2" 2>&1 & daemon=$!
trap 'kill $daemon; wait $daemon' EXIT # it must not outlive a failed import: it would hold the folder
client="ctr --address /run/import/socket --namespace k8s.io"
tries=100
until $client version >/dev/null 2>&1; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || { echo "containerd did not start" >&2; exit 1; }
	sleep 0.1
done
timeout 300 $client images import "$3"
`

const importConfiguration = `version = 2
root = %q
state = "/run/import"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/run/import/socket"
`

// unpack makes a stock of another, if there is one, and an archive. It makes it beside its final folder, which it
// becomes when it is complete.
func (s stock) unpack(ctx context.Context, from, kept, file string) error {
	partial := filepath.Join(s.folder, "partial") // a fixed name, so that what was interrupted is used up
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if from != "" {
		if err := link(ctx, from, partial); err != nil {
			return err
		}
	}
	configuration := filepath.Join(s.machine.Folder, "import.toml")
	if err := os.WriteFile(configuration, fmt.Appendf(nil, importConfiguration, partial), 0o600); err != nil {
		return err
	}
	line := append(s.machine.Enter(), "env", "TMPDIR=/run/tmp", "sh", "-c", importScript, "sh", configuration, s.log, file)
	if _, err := output(ctx, exec.Command(line[0], line[1:]...)); err != nil {
		return fmt.Errorf("import image %s: %w", file, err)
	}
	return os.Rename(partial, kept)
}

// databases are containerd's own files in its folder that it does write to.
var databases = []string{"io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"}

// link makes a copy of a containerd's folder that shares all files which are never written to.
func link(ctx context.Context, from, to string) error {
	if _, err := output(ctx, exec.Command("cp", "--archive", "--link", from, to)); err != nil {
		// It is on another file system, for example.
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if _, err := output(ctx, exec.Command("cp", "--archive", from, to)); err != nil {
			return fmt.Errorf("copy the images: %w", err)
		}
		return nil
	}
	for _, name := range databases {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(to, name)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// prune removes stocks that nobody has used for long, and all but the latest. Those in use now have just been touched.
func (s stock) prune(now time.Time) {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return
	}
	used := map[string]time.Time{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.IsDir() {
			used[entry.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) })
	for i, name := range names {
		if age := now.Sub(used[name]); age > 0 && (i >= mostStocks || age > unusedFor) {
			_ = os.RemoveAll(filepath.Join(s.folder, name))
		}
	}
}
