package node

import (
	"context"
	"errors"
	"fmt"
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
	m := &Machine{Name: config.Name, Number: config.Number, PID: pid, Folder: folder, alias: cgroupOf(config.Folder)}
	if config.First == nil {
		err = m.connect(ctx)
	} else {
		m.Slot = config.First.Slot
		err = m.join(ctx)
	}
	if err != nil {
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

// run runs a program and says what it said if it fails.
func run(ctx context.Context, program string, arguments ...string) error {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return err
}
