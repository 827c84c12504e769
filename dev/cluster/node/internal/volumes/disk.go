package volumes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	xfs  = "xfs"
	ext4 = "ext4"
)

const mebibyte = 1 << 20

// smallest is the size below which a file system can't be made, in bytes.
var smallest = map[string]int64{xfs: 300 * mebibyte, ext4: 8 * mebibyte}

// disks is a folder with the disks of a node.
type disks struct{ folder string }

// disk is a file with a file system.
type disk struct{ file, mountPoint, fsType string }

func (d disks) disk(name, fsType string) disk {
	return disk{file: filepath.Join(d.folder, name+".img"), mountPoint: filepath.Join(d.folder, name), fsType: fsType}
}

// sizeFor returns the size of a file for a request: whole mebibytes, and not less than the file system needs.
func sizeFor(fsType string, request int64) (int64, error) {
	least, ok := smallest[fsType]
	if !ok {
		return 0, fmt.Errorf("file system %q: %s must be %s or %s", fsType, fsTypeParameter, xfs, ext4)
	}
	return max(least, (request+mebibyte-1)/mebibyte*mebibyte), nil
}

// make makes the disk and mounts it, from wherever an earlier attempt has got to.
func (d disk) make(ctx context.Context, size int64) error {
	if err := os.MkdirAll(d.mountPoint, 0o755); err != nil {
		return err
	}
	if mounts, err := d.mounts(); err != nil || mounts > 0 {
		return err
	}
	partial := d.file + ".partial" // the file's own name is for complete file systems
	if _, err := os.Stat(d.file); errors.Is(err, fs.ErrNotExist) {
		if err := d.format(ctx, partial, size); err != nil {
			return err
		}
		if err := os.Rename(partial, d.file); err != nil {
			return err
		}
	}
	if err := d.mount(ctx); err != nil {
		return err
	}
	return os.Chmod(d.mountPoint, 0o777) // usable without a fsGroup too
}

func (d disk) format(ctx context.Context, file string, size int64) error {
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(size), f.Close())
	if err != nil {
		return err
	}
	if d.fsType == ext4 {
		// Without reserved blocks root finds it full when others do.
		return run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", file)
	}
	return run(ctx, "mkfs.xfs", "-q", "-K", "-f", file)
}

// mount mounts the disk on a loop device that the kernel gives back with the last mount.
func (d disk) mount(ctx context.Context) error {
	return run(ctx, "mount", "-t", d.fsType, "-o", "loop", d.file, d.mountPoint)
}

// remove removes the disk with its data.
func (d disk) remove(ctx context.Context) error {
	mounts, err := d.mounts()
	if err != nil {
		return err
	}
	if mounts > 0 {
		if err := run(ctx, "umount", d.mountPoint); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(d.file+".partial"), os.RemoveAll(d.file), os.RemoveAll(d.mountPoint))
}

// grow makes the disk and its file system bigger.
func (d disk) grow(ctx context.Context, size int64) error {
	info, err := os.Stat(d.file)
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := os.Truncate(d.file, size); err != nil {
			return err
		}
	}
	device, err := d.device(ctx)
	if err != nil {
		return err
	}
	if err := run(ctx, "losetup", "-c", device); err != nil {
		return err
	}
	if d.fsType == xfs {
		return run(ctx, "xfs_growfs", d.mountPoint)
	}
	online := run(ctx, "resize2fs", device)
	if online == nil {
		return nil
	}
	mounts, err := d.mounts()
	if err != nil {
		return err
	}
	if mounts > 1 { // the kernel refuses, for lack of a privilege, and a pod is using it
		return fmt.Errorf("ext4 can't grow here while a pod uses it, stop the pod: %w", online)
	}
	return d.growUnmounted(ctx)
}

// growUnmounted resizes an ext4 file system that only we have mounted.
func (d disk) growUnmounted(ctx context.Context) error {
	if err := run(ctx, "umount", d.mountPoint); err != nil {
		return err
	}
	err := run(ctx, "e2fsck", "-f", "-p", d.file)
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.ExitCode() == 1 { // 1 says that something has been put right
		err = run(ctx, "resize2fs", d.file)
	}
	return errors.Join(err, d.mount(ctx))
}

func (d disk) device(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", d.file).Output()
	if err != nil {
		return "", fmt.Errorf("find the loop device of %s: %w", d.file, err)
	}
	devices := strings.Fields(string(output))
	if len(devices) != 1 {
		return "", fmt.Errorf("%s has %d loop devices instead of 1", d.file, len(devices))
	}
	return devices[0], nil
}

// mounts counts the mounts of the disk: 0 if not even we have mounted it, more than 1 if pods use it.
func (d disk) mounts() (int, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, err
	}
	var here syscall.Stat_t
	if err := syscall.Stat(d.mountPoint, &here); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("look at %s: %w", d.mountPoint, err)
	}
	return countMounts(string(table), d.mountPoint), nil
}

// countMounts counts the lines of a mountinfo that are of the same device as the one that is mounted at mountPoint.
func countMounts(table, mountPoint string) int {
	device, count := "", map[string]int{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // id, parent, major:minor, root, mount point, ...
		if len(fields) < 5 {
			continue
		}
		count[fields[2]]++
		if fields[4] == mountPoint {
			device = fields[2]
		}
	}
	return count[device]
}

// run runs a program and says what it said if it fails.
func run(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	if err != nil {
		said := strings.Join(strings.Fields(string(bytes.TrimSpace(output))), " ")
		return fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return nil
}
