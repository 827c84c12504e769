//go:build node && linux

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// onNode is a pod on the node of this number, with a volume and a Service.
func onNode(number string) string {
	return strings.NewReplacer("-N", "-"+number, `"N"`, `"`+number+`"`).Replace(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: on-N}
spec: {accessModes: [ReadWriteOnce], storageClassName: standard-ext4, resources: {requests: {storage: 50Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: on-N, labels: {on: "N"}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {topology.kubernetes.io/zone: zone-N}
  containers: [{name: probe, image: "localhost/probe:1", args: [serve], volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: on-N}}]
---
apiVersion: v1
kind: Service
metadata: {name: on-N}
spec: {selector: {on: "N"}, ports: [{port: 80, targetPort: 8080}]}
`)
}

func TestTwoNodes(t *testing.T) {
	c := runWithNodes(t, 2)
	c.create(t, onNode("1"))
	c.create(t, onNode("2"))
	c.awaitPods(t)
	c.volumes = strings.Fields(c.kubectl(t, "get", "pv", "-o", "jsonpath={.items[*].metadata.name}"))
	t.Run("a volume is where its pod is", c.testPlaces)
	t.Run("the other node is reached", c.testAcrossNodes)
	t.Run("the second node is cut off and joined again", func(t *testing.T) { c.testCut(t, "2", "1") })
	t.Run("and the first one", func(t *testing.T) { c.testCut(t, "1", "2") })
	c.onNodeCommand(t, "2", "cut") // so that it has connections which it can't close
	time.Sleep(2 * time.Second)
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.command.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, c.stderr.String())
	}
	c.mustLeaveNothing(t)
	c.mustLeaveNothingOfNode(t)
}

func (c *withNode) testPlaces(t *testing.T) {
	for _, number := range []string{"1", "2"} {
		name := "node-" + number
		if got := c.kubectl(t, "get", "pod", "on-"+number, "-o", "jsonpath={.spec.nodeName}"); got != name {
			t.Errorf("the pod is on %s", got)
		}
		volume := c.kubectl(t, "get", "pvc", "on-"+number, "-o", "jsonpath={.spec.volumeName}")
		affinity := c.kubectl(t, "get", "pv", volume, "-o", "jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[*].matchExpressions[*].values}")
		if affinity != `["`+name+`"]` {
			t.Errorf("the volume binds its pod to %s", affinity)
		}
		for _, machine := range c.state.Nodes {
			_, err := os.Stat(fmt.Sprintf("/proc/%d/root/var/lib/volumes/%s/lost+found", machine.PID, volume))
			if there := err == nil; there != (machine.Name == name) {
				t.Errorf("the volume is on %s: %t", machine.Name, there)
			}
		}
		c.kubectl(t, "exec", "on-"+number, "--", "/probe", "fill", "/data/file")
	}
}

func (c *withNode) testAcrossNodes(t *testing.T) {
	for from, to := range map[string]string{"on-1": "on-2", "on-2": "on-1"} {
		pod := c.kubectl(t, "get", "pod", to, "-o", "jsonpath={.status.podIP}")
		service := c.kubectl(t, "get", "service", to, "-o", "jsonpath={.spec.clusterIP}")
		for _, address := range []string{pod + ":8080", service, to, to + ".default.svc.cluster.local"} {
			if got := c.kubectl(t, "exec", from, "--", "/probe", "get", "http://"+address); got != "this is "+to+"\n" {
				t.Errorf("%s gets %q from %s", from, got, address)
			}
		}
		own := c.kubectl(t, "get", "pod", from, "-o", "jsonpath={.status.podIP}")
		if got := c.kubectl(t, "exec", from, "--", "/probe", "get", "http://"+pod+":8080/from"); got != own {
			t.Errorf("%s sees the address %s of %s, which has %s", to, got, from, own)
		}
		for _, address := range []string{pod + ":8080", service} {
			if got := get(t, "http://"+address); got != "this is "+to+"\n" {
				t.Errorf("the host gets %q from %s", got, address)
			}
		}
	}
}

// onNodeCommand runs a command of `cluster node` for the node of this number and returns what it writes.
func (c *withNode) onNodeCommand(t *testing.T, number, command string, arguments ...string) string {
	t.Helper()
	line := append([]string{"node", command, "--kubeconfig", c.state.Kubeconfig, "--node=node-" + number}, arguments...)
	out, errs, status := cluster(line...)
	if status != 0 {
		t.Fatalf("cluster %q: exit status %d: %s", line, status, errs)
	}
	return out
}

// testCut cuts the node of one number off and looks from the other's.
func (c *withNode) testCut(t *testing.T, lost, kept string) {
	address := c.kubectl(t, "get", "pod", "on-"+lost, "-o", "jsonpath={.status.podIP}") + ":8080"
	c.onNodeCommand(t, lost, "cut")
	for _, to := range []string{address, "on-" + lost} {
		if output, err := c.kubectlCommand("exec", "on-"+kept, "--", "/probe", "get", "http://"+to).CombinedOutput(); err == nil {
			t.Errorf("%s is reached though it is cut off: %s", to, output)
		}
	}
	c.kubectl(t, "wait", "--for=condition=Ready=Unknown", "node/node-"+lost, "--timeout=3m")
	for range 10 { // each of which would find a lost DNS server by a chance of one half
		if got := c.kubectl(t, "exec", "on-"+kept, "--", "/probe", "get", "http://on-"+kept+".default"); got != "this is on-"+kept+"\n" {
			t.Errorf("what isn't cut off gets %q of itself", got)
		}
	}
	if got := c.onNodeCommand(t, lost, "exec", "--", "hostname"); got != "node-"+lost+"\n" {
		t.Errorf("in the node that is cut off a command says %q", got)
	}
	c.onNodeCommand(t, lost, "join")
	c.kubectl(t, "wait", "--for=condition=Ready", "node/node-"+lost, "--timeout=2m")
	c.awaitPods(t)
	c.testAcrossNodes(t)
}
