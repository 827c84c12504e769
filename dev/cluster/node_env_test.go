//go:build node && linux

// The tests of a node need root and what `dev/setup node` installs, so they run by `go test -tags node` only. They
// fail where something is missing.

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/databases/dev/cluster/internal/image"
)

// buildProbe builds the program that the tests' pods run.
func buildProbe(t *testing.T, file string) {
	t.Helper()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// probeImage makes the archive of the image with that program.
func probeImage(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	probe, archive := filepath.Join(folder, "probe"), filepath.Join(folder, "probe.tar")
	buildProbe(t, probe)
	if err := image.Write(archive, "localhost/probe:1", probe); err != nil {
		t.Fatal(err)
	}
	return archive
}

// withNode is a cluster with a node or more.
type withNode struct {
	*running
	kubectlFile string
	volumes     []string // the names of those that were seen
	pids        []string // the machines' process namespaces
	devices     []int    // the indices of the host's ends of their veth pairs
}

func runWithNode(t *testing.T, arguments ...string) *withNode {
	t.Helper()
	return runWithNodes(t, 1, arguments...)
}

func runWithNodes(t *testing.T, nodes int, arguments ...string) *withNode {
	t.Helper()
	built, err := exec.Command(program, "build").Output()
	if err != nil {
		t.Fatal(err)
	}
	arguments = append([]string{"--until-stdin-closes", "--nodes", fmt.Sprint(nodes), "--image", probeImage(t)}, arguments...)
	c := &withNode{
		running:     run(t, arguments...),
		kubectlFile: filepath.Join(strings.TrimSpace(string(built)), "kubectl"),
	}
	t.Cleanup(func() { // so that a test that failed leaves nothing either
		_ = c.stdin.Close()
		_ = c.command.Wait()
	})
	c.recognize(t)
	return c
}

// recognize notes what the machines' parts are known by, so that they are not taken for those of another cluster that
// gets the same names after it has ended.
func (c *withNode) recognize(t *testing.T) {
	t.Helper()
	for _, machine := range c.state.Nodes {
		file := fmt.Sprintf("/proc/%d/ns/pid", machine.PID)
		held, err := os.Open(file) // no other namespace gets the same number meanwhile
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { held.Close() })
		pids, err := os.Readlink(file)
		if err != nil {
			t.Fatal(err)
		}
		device, err := net.InterfaceByName(machine.Network().Device(machine.Number))
		if err != nil {
			t.Fatal(err)
		}
		c.pids, c.devices = append(c.pids, pids), append(c.devices, device.Index)
	}
}

func (c *withNode) kubectlCommand(arguments ...string) *exec.Cmd {
	return exec.Command(c.kubectlFile, append([]string{"--kubeconfig", c.state.Kubeconfig, "--cache-dir", filepath.Join(c.folder, "tests")}, arguments...)...)
}

// kubectl runs kubectl, which must succeed, and returns what it wrote.
func (c *withNode) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := c.kubectlCommand(arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

func (c *withNode) create(t *testing.T, objects string) {
	t.Helper()
	command := c.kubectlCommand("create", "-f", "-")
	command.Stdin = strings.NewReader(objects)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func (c *withNode) awaitPods(t *testing.T) {
	t.Helper()
	c.kubectl(t, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
}

const pods = `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: probe, image: "localhost/probe:1", args: [serve]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: probe, image: "localhost/probe:1", args: [serve]}]}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
`

// The volumes belong to a pod as strict as those of a StatefulSet of databases are.
const disks = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: xfs}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 400Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ext4}
spec: {accessModes: [ReadWriteOnce], storageClassName: standard-ext4, resources: {requests: {storage: 50Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: small}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: disks}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsUser: 999, runAsGroup: 999, fsGroup: 999, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: probe
    image: localhost/probe:1
    args: [serve]
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: xfs, mountPath: /xfs}, {name: ext4, mountPath: /ext4}, {name: small, mountPath: /small}]
  volumes:
  - {name: xfs, persistentVolumeClaim: {claimName: xfs}}
  - {name: ext4, persistentVolumeClaim: {claimName: ext4}}
  - {name: small, persistentVolumeClaim: {claimName: small}}
`
