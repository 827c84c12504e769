//go:build node && linux

package main

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNothingIsLeftOfANode(t *testing.T) {
	for _, test := range []struct {
		sentence string
		end      func(*withNode) int // the process to kill
		says     string
	}{
		{"after its supervisor is killed", func(c *withNode) int { return c.command.Process.Pid }, ""},
		{"after the machine's first process is killed", func(c *withNode) int { return c.state.Node("").PID }, "node-1 ended unexpectedly: signal: killed"},
		{"after that of the second machine is killed", func(c *withNode) int { return c.state.Node("node-2").PID }, "node-2 ended unexpectedly: signal: killed"},
		{"after a component of it is killed", func(c *withNode) int { return c.component("kubelet") }, "kubelet ended unexpectedly"},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c := runWithNodes(t, 2)
			c.create(t, pods)
			c.create(t, disks)
			c.awaitPods(t)
			c.volumes = strings.Fields(c.kubectl(t, "get", "pv", "-o", "jsonpath={.items[*].metadata.name}"))
			if left := c.leftOfNode(t); len(left) < 4 {
				t.Fatalf("the test sees only %q of a cluster that runs", left)
			}
			if err := syscall.Kill(test.end(c), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = c.command.Wait()
			if !strings.Contains(c.stderr.String(), test.says) {
				t.Errorf("it does not say %q but\n%s", test.says, c.stderr.String())
			}
			c.mustLeaveNothing(t)
			c.mustLeaveNothingOfNode(t)
		})
	}
}

func (c *withNode) component(name string) int {
	for _, component := range c.state.Components {
		if component.Name == name {
			return component.PID
		}
	}
	return 0
}

func (c *withNode) mustLeaveNothingOfNode(t *testing.T) {
	t.Helper()
	var left []string
	for range 500 {
		if left = c.leftOfNode(t); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left after 5 s: %q", left)
}

// leftOfNode lists what of the node exists on the host.
func (c *withNode) leftOfNode(t *testing.T) []string {
	t.Helper()
	var left []string
	spaces, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, space := range spaces {
		if link, err := os.Readlink(space); err == nil && slices.Contains(c.pids, link) {
			left = append(left, "process "+space)
		}
	}
	loops, err := exec.Command("losetup", "--noheadings", "--output", "BACK-FILE").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(loops)) {
		if slices.ContainsFunc(c.volumes, func(volume string) bool { return strings.Contains(line, volume) }) {
			left = append(left, "loop device of "+line)
		}
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup" + filepath.Dir(c.state.Node("").Cgroup),
		"/sys/fs/cgroup/*" + filepath.Dir(c.state.Node("").Cgroup),
	} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	for _, index := range c.devices {
		if device, err := net.InterfaceByIndex(index); err == nil {
			left = append(left, "network device "+device.Name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), c.folder) || strings.Contains(string(rules), "KUBE-") {
		left = append(left, "a mount or a rule on the host itself")
	}
	return left
}

// Only control groups outlive the machine, so they are all that is left when nobody can clean up.
func TestTheNextStartRemovesWhatNobodyCould(t *testing.T) {
	name := "test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		cluster("stop", "--name", name)
		removeFiles(t, name)
	})
	if _, errs, status := cluster("start", "--node", "--name", name); status != 0 {
		t.Fatal(errs)
	}
	named, err := named(name)
	if err != nil {
		t.Fatal(err)
	}
	state, err := named.State()
	if err != nil || state == nil {
		t.Fatalf("%v, %v", state, err)
	}
	c := &withNode{running: &running{folder: named.Folder, state: state}}
	c.recognize(t)
	guard, err := exec.Command("pgrep", "--full", "--exact", program+" guard "+named.Folder).Output()
	if err != nil {
		t.Fatalf("find the guard: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(guard)))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{pid, state.Supervisor} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 { // without the guard it takes the kernel a moment
		if left := c.leftOfNode(t); !slices.ContainsFunc(left, func(what string) bool { return !strings.HasPrefix(what, "/sys/fs/cgroup") }) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if left := c.leftOfNode(t); slices.ContainsFunc(left, func(what string) bool { return !strings.HasPrefix(what, "/sys/fs/cgroup") }) {
		t.Errorf("left are %q, want nothing but control groups", left)
	}
	if _, errs, status := cluster("start", "--name", name); status != 0 { // without a node, which would use the same groups
		t.Fatal(errs)
	}
	if left := c.leftOfNode(t); len(left) > 0 {
		t.Errorf("after the next start there still are %q", left)
	}
}
