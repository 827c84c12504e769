package node

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// kernelSettings are the values that kubelet wants and would else set for the whole host.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// RunInit is a machine's first process. It tells file descriptor 3 when the machine is arranged, and never returns
// then.
func RunInit(name, folder string) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := arrange(folder); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	ready.Close()
	for range children {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
	return nil
}

// arrange gives the machine its own mounts.
func arrange(folder string) error {
	const cgroups = "/run/cgroup"
	m := &mounter{}
	m.mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE)
	m.mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV)
	m.folder("/run/tmp", "/run/lock", cgroups)
	for _, path := range covered {
		own := filepath.Join(folder, path)
		m.folder(own)
		m.mount(own, path, "", syscall.MS_BIND)
	}
	m.mount("proc", "/proc", "proc", 0)
	// The host's sysfs shows the host's network devices, so there must be a new one; the control groups stay.
	m.mount("/sys/fs/cgroup", cgroups, "", syscall.MS_BIND|syscall.MS_REC)
	m.mount("sysfs", "/sys", "sysfs", 0)
	m.mount(cgroups, "/sys/fs/cgroup", "", syscall.MS_MOVE)
	for setting, value := range kernelSettings {
		file := filepath.Join("/run/settings", setting)
		m.folder(filepath.Dir(file))
		m.write(file, value)
		m.mount(file, filepath.Join("/proc/sys", setting), "", syscall.MS_BIND)
	}
	m.write("/proc/sys/net/ipv4/ip_forward", "1")
	// Pods may ask for mounts that propagate, but only within the machine.
	m.mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED)
	return m.err
}

// mounter does nothing more after the first error.
type mounter struct{ err error }

func (m *mounter) mount(source, target, kind string, flags uintptr) {
	if m.err == nil {
		if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
			m.err = fmt.Errorf("mount %s on %s: %w", source, target, err)
		}
	}
}

func (m *mounter) folder(paths ...string) {
	for _, path := range paths {
		if m.err == nil {
			m.err = os.MkdirAll(path, 0o755)
		}
	}
}

func (m *mounter) write(file, content string) {
	if m.err == nil {
		m.err = os.WriteFile(file, []byte(content), 0o644)
	}
}
