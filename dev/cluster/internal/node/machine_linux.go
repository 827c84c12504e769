package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/example/databases/dev/cluster/internal/process"
)

// Start makes a machine whose first process belongs to the group. The machine's files are in its folder, which must
// exist; its log is told too.
func Start(ctx context.Context, group *process.Group, config Config) (*Machine, error) {
	for _, needed := range []string{config.Folder, config.Cache} {
		if !Visible(needed) {
			return nil, fmt.Errorf("a node can't use %s, because it has a folder of its own there: set $XDG_CACHE_HOME or $TMPDIR to another place", needed)
		}
	}
	folder := filepath.Join(config.Folder, config.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	pid, err := startInit(group, config, exec.Command(self, InitCommand, config.Name, folder))
	if err != nil {
		return nil, err
	}
	m := &Machine{Name: config.Name, Number: config.Number, PID: pid, Folder: folder}
	if err := m.connect(ctx); err != nil {
		return nil, err
	}
	m.Cgroup, err = makeCgroups(config.Folder, config.Name)
	return m, err
}

// startInit starts the first process and returns when it has arranged its mounts.
func startInit(group *process.Group, config Config, command *exec.Cmd) (int, error) {
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	ready, told, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()
	command.ExtraFiles = []*os.File{told}
	pid, err := group.StartCommand(config.Name, command, config.Log)
	told.Close()
	if err != nil {
		return 0, err
	}
	if n, _ := ready.Read(make([]byte, 1)); n == 0 {
		lines, _ := process.Tail(config.Log, 1)
		return 0, fmt.Errorf("make %s: %s", config.Name, strings.Join(lines, ""))
	}
	return pid, nil
}

// connect makes the veth pair in the first free network.
func (m *Machine) connect(ctx context.Context) error {
	used, err := usedRanges()
	if err != nil {
		return err
	}
	for slot := range slots {
		m.Slot = slot
		if overlaps(used, m.Network().Prefix()) {
			continue
		}
		device := m.Network().Device(m.Number)
		err := run(ctx, "ip", "link", "add", device, "type", "veth", "peer", "name", uplink, "netns", fmt.Sprint(m.PID))
		if err != nil && strings.Contains(err.Error(), "File exists") {
			continue // another cluster has just taken it
		}
		if err != nil {
			return err
		}
		return m.configure(ctx, device)
	}
	return fmt.Errorf("no network is free in 198.18.0.0/15: %d clusters with nodes are possible at once", slots)
}

func (m *Machine) configure(ctx context.Context, device string) error {
	network, bits := m.Network(), m.Network().Link().Bits()
	inside := func(arguments ...string) []string { return append(m.Enter("net"), arguments...) }
	for _, command := range [][]string{
		{"ip", "address", "add", fmt.Sprintf("%s/%d", network.Host(), bits), "dev", device},
		{"ip", "link", "set", device, "up"},
		inside("ip", "link", "set", "lo", "up"),
		inside("ip", "address", "add", fmt.Sprintf("%s/%d", m.Address(), bits), "dev", uplink),
		inside("ip", "link", "set", uplink, "up"),
		// So that tests and the API server reach pods and services as the node does.
		{"ip", "route", "add", network.PodsOf(m.Number).String(), "via", m.Address().String(), "dev", device},
		{"ip", "route", "add", network.Services().String(), "via", m.Address().String(), "dev", device},
	} {
		if err := run(ctx, command[0], command[1:]...); err != nil {
			return fmt.Errorf("connect %s: %w", m.Name, err)
		}
	}
	return nil
}

// usedRanges returns the ranges that the host has addresses in or routes to, but for the default route.
func usedRanges() ([]netip.Prefix, error) {
	var used []netip.Prefix
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			used = append(used, prefix.Masked())
		}
	}
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, err
	}
	return append(used, parseRoutes(string(table))...), nil
}

func overlaps(used []netip.Prefix, wanted netip.Prefix) bool {
	for _, prefix := range used {
		if prefix.Overlaps(wanted) {
			return true
		}
	}
	return false
}

// run runs a program and says what it said if it fails.
func run(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return err
}
