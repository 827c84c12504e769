//go:build node && linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNode(t *testing.T) {
	c := runWithNode(t)
	c.create(t, pods)
	c.awaitPods(t)
	t.Run("pods find each other", c.testNetwork)
	t.Run("the API server reaches pods", c.testConnections)
	t.Run("the node can be entered", c.testEnter)
	c.create(t, disks)
	c.awaitPods(t)
	c.volumes = strings.Fields(c.kubectl(t, "get", "pv", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(c.volumes) != 3 {
		t.Errorf("there are the volumes %q, want three", c.volumes)
	}
	t.Run("a volume is full when it is full, and grows while it is used", c.testFillAndGrow)
	t.Run("ext4 is as ext4 is", c.testExt4)
	t.Run("a volume that is too small for its file system is honestly bigger", c.testSmall)
	t.Run("a volume goes with its claim unless it is to be kept", c.testDelete)
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.command.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, c.stderr.String())
	}
	c.mustLeaveNothing(t)
	c.mustLeaveNothingOfNode(t)
}

func (c *withNode) testNetwork(t *testing.T) {
	service := strings.TrimSpace(c.kubectl(t, "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}"))
	pod := strings.TrimSpace(c.kubectl(t, "get", "pod", "server", "-o", "jsonpath={.status.podIP}"))
	for _, from := range []string{"client", "server"} { // itself, through its own service, too
		for _, address := range []string{service, "server.default", "server.default.svc.cluster.local", pod + ":8080"} {
			if got := c.kubectl(t, "exec", from, "--", "/probe", "get", "http://"+address); got != "this is server\n" {
				t.Errorf("%s gets %q from %s", from, got, address)
			}
		}
	}
	for _, address := range []string{service, pod + ":8080"} {
		if got := get(t, "http://"+address); got != "this is server\n" {
			t.Errorf("the host gets %q from %s", got, address)
		}
	}
	// There are no certificates in the probe: that the API server speaks TLS is answer enough.
	output, _ := c.kubectlCommand("exec", "client", "--", "/probe", "get", "https://kubernetes.default").CombinedOutput()
	if !strings.Contains(string(output), "tls: failed to verify certificate") {
		t.Errorf("a pod gets from the API server: %s", output)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (c *withNode) testConnections(t *testing.T) {
	if got := c.kubectl(t, "logs", "server"); got != "serving\n" {
		t.Errorf("its log is %q", got)
	}
	forward := c.kubectlCommand("port-forward", "pod/server", ":8080")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = forward.Process.Kill(); _ = forward.Wait() }()
	var port int
	if _, err := fmt.Fscanf(out, "Forwarding from 127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if got := get(t, fmt.Sprintf("http://127.0.0.1:%d", port)); got != "this is server\n" {
		t.Errorf("through port-forward comes %q", got)
	}
}

func (c *withNode) testEnter(t *testing.T) {
	for command, want := range map[string]string{
		"hostname":                         "node-1",
		"cat /proc/1/comm":                 "cluster",
		"ls /sys/class/net/uplink/ifindex": "/sys/class/net/uplink/ifindex",
		"ls -d /run/containerd":            "/run/containerd",
	} {
		line := append(c.state.Node("").Enter(), strings.Fields(command)...)
		output, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		if got := strings.TrimSpace(string(output)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", command, got, err, want)
		}
	}
}

// fill fills a volume and returns how many MiB fitted in.
func (c *withNode) fill(t *testing.T, file string) int {
	t.Helper()
	var written int
	var reason string
	output := c.kubectl(t, "exec", "disks", "--", "/probe", "fill", file)
	if _, err := fmt.Sscanf(output, "%d %s", &written, &reason); err != nil || !strings.Contains(output, "no space left on device") {
		t.Fatalf("filling %s: %q", file, output)
	}
	return written
}

func (c *withNode) testFillAndGrow(t *testing.T) {
	if got := c.kubectl(t, "exec", "disks", "--", "/probe", "who"); got != "999 999\n" {
		t.Fatalf("the pod runs as %q", got)
	}
	if written := c.fill(t, "/xfs/file"); written < 250 || written > 400 {
		t.Errorf("%d MiB fit into a volume of 400", written)
	}
	c.kubectl(t, "patch", "pvc", "xfs", "-p", `{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`)
	c.kubectl(t, "wait", "--for=jsonpath={.status.capacity.storage}=1Gi", "pvc/xfs", "--timeout=20s")
	if written := c.fill(t, "/xfs/file"); written < 550 || written > 624 {
		t.Errorf("%d MiB more fit into a volume that has grown by 624", written)
	}
	if got := c.kubectl(t, "get", "events", "--field-selector=reason=VolumeResizeSuccessful"); !strings.Contains(got, "has grown to 1Gi") {
		t.Errorf("the events are %s", got)
	}
}

func (c *withNode) testExt4(t *testing.T) {
	if written := c.fill(t, "/ext4/file"); written < 35 || written > 50 {
		t.Errorf("%d MiB fit into a volume of 50", written)
	}
	volume := strings.TrimSpace(c.kubectl(t, "get", "pvc", "ext4", "-o", "jsonpath={.spec.volumeName}"))
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/var/lib/volumes/%s/lost+found", c.state.Node("").PID, volume)); err != nil {
		t.Error(err)
	}
	c.kubectl(t, "patch", "pvc", "ext4", "-p", `{"spec":{"resources":{"requests":{"storage":"150Mi"}}}}`)
	// It grows online where the kernel lets it, else once no pod uses it.
	grown := c.kubectlCommand("wait", "--for=jsonpath={.status.capacity.storage}=150Mi", "pvc/ext4", "--timeout=3s").Run() == nil
	if !grown {
		if got := c.kubectl(t, "get", "pvc", "ext4", "-o", "jsonpath={.status.conditions}"); !strings.Contains(got, "stop the pod") {
			t.Errorf("the claim does not say why it has not grown: %s", got)
		}
		c.kubectl(t, "delete", "pod", "disks", "--wait")
		c.kubectl(t, "wait", "--for=jsonpath={.status.capacity.storage}=150Mi", "pvc/ext4", "--timeout=30s")
		if got := c.kubectl(t, "get", "pvc", "ext4", "-o", "jsonpath={.status.conditions}"); strings.Contains(got, "stop the pod") {
			t.Errorf("the claim still says why it has not grown: %s", got)
		}
		c.create(t, disks[strings.LastIndex(disks, "---"):])
		c.awaitPods(t)
	}
	if written := c.fill(t, "/ext4/file"); written < 70 || written > 100 {
		t.Errorf("%d MiB more fit into a volume that has grown by 100", written)
	}
}

func (c *withNode) testSmall(t *testing.T) {
	if got := c.kubectl(t, "get", "pvc", "small", "-o", "jsonpath={.status.capacity.storage}"); got != "300Mi" {
		t.Errorf("its capacity is %s", got)
	}
}

func (c *withNode) testDelete(t *testing.T) {
	keep := strings.TrimSpace(c.kubectl(t, "get", "pvc", "xfs", "-o", "jsonpath={.spec.volumeName}"))
	gone := strings.TrimSpace(c.kubectl(t, "get", "pvc", "ext4", "-o", "jsonpath={.spec.volumeName}"))
	c.kubectl(t, "patch", "pv", keep, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	c.kubectl(t, "delete", "pod", "disks", "--wait")
	c.kubectl(t, "delete", "pvc", "xfs", "ext4", "--wait")
	c.kubectl(t, "wait", "--for=delete", "pv/"+gone, "--timeout=20s")
	c.kubectl(t, "wait", "--for=jsonpath={.status.phase}=Released", "pv/"+keep, "--timeout=20s")
	folder := fmt.Sprintf("/proc/%d/root/var/lib/volumes", c.state.Node("").PID)
	for _, file := range []string{gone, gone + ".img"} {
		if _, err := os.Stat(filepath.Join(folder, file)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", file, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, keep, "file")); err != nil {
		t.Error(err)
	}
}
