//go:build linux

package faults

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// process is one of a pod, as the host sees it.
type process struct {
	pid, parent int
	started     string // the kernel's time of its start, which tells it from a later one of the same pid
	arguments   []string
}

// processes are those of a pod. One that ends meanwhile is left out.
func processes(pod types.UID) ([]process, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || !belongs(pid, pod) {
			continue
		}
		p, err := read(pid)
		if err == nil && len(p.arguments) > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// belongs says whether a process is in the pod's control group.
func belongs(pid int, pod types.UID) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || pod == "" {
		return false
	}
	// The systemd driver writes the uid with underscores.
	return strings.Contains(string(content), "pod"+string(pod)) ||
		strings.Contains(string(content), "pod"+strings.ReplaceAll(string(pod), "-", "_"))
}

func read(pid int) (process, error) {
	p := process{pid: pid}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The second field is a name in parentheses, and may have any character.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third on: state, parent, ...
	if len(fields) < 20 {
		return p, fmt.Errorf("process %d: its state has %d fields", pid, len(fields))
	}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, err
	}
	p.started = fields[19]
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return p, err
	}
	if text := strings.TrimRight(string(line), "\x00"); text != "" { // a zombie has none
		p.arguments = strings.Split(text, "\x00")
	}
	return p, nil
}

// signal sends a signal if it is still the same process of the pod.
func (p process) signal(pod types.UID, signal syscall.Signal) error {
	now, err := read(p.pid)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now.started != p.started || !belongs(p.pid, pod) {
		return errGone
	}
	if err != nil {
		return err
	}
	if err := syscall.Kill(p.pid, signal); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return errGone
}

// errGone says that a process has ended.
var errGone = errors.New("the process has ended")

// The processes of a pod, by what they do.

func isLauncher(p process) bool {
	return filepath.Base(p.arguments[0]) == "databases-patroni" && slices.Contains(p.arguments, "run")
}

func isPatroni(p process) bool {
	at := slices.Index(p.arguments, "-m")
	return at > 0 && at+1 < len(p.arguments) && p.arguments[at+1] == "patroni"
}

// isPostmaster tells it from its children, which write what they do over their arguments.
func isPostmaster(p process) bool {
	return filepath.Base(p.arguments[0]) == "postgres" && slices.Contains(p.arguments, "-D")
}

func isPostgres(p process) bool {
	return isPostmaster(p) || strings.HasPrefix(p.arguments[0], "postgres: ")
}

// find returns the pod's processes of a kind: at least one.
func find(pod types.UID, what string, is func(process) bool) ([]process, error) {
	all, err := processes(pod)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(all, func(p process) bool { return !is(p) })
	if len(found) == 0 {
		return nil, fmt.Errorf("the pod has no process of %s", what)
	}
	return found, nil
}

// first returns the one whose parent is none of them: a program that has forked looks like its child.
func first(found []process) process {
	for _, p := range found {
		if !slices.ContainsFunc(found, func(other process) bool { return other.pid == p.parent }) {
			return p
		}
	}
	return found[0]
}
