package controlplane

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/example/databases/dev/cluster/internal/node"
)

func newTestSiteWithNode(t *testing.T) *site {
	t.Helper()
	config := Config{Folder: t.TempDir(), Name: "dev", Components: slices.Concat(Default, OfNode)}
	chosen, err := choose(config.Components)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := choosePorts(chosen, 0, loopback) // the network's own address exists with a real machine only
	if err != nil {
		t.Fatal(err)
	}
	machine := &node.Machine{Name: firstNode, Number: 1, PID: 7, Slot: 2, Folder: filepath.Join(config.Folder, firstNode), Cgroup: "/group/" + firstNode}
	s, err := newSite(config, chosen, ports, machine)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestComponentsOfANode(t *testing.T) {
	s := newTestSiteWithNode(t)
	for _, c := range s.components {
		command := strings.Join(s.command(c, "/programs/"+c.name).Args, " ")
		if inside := strings.Contains(command, "--target 7 "); inside != slices.Contains(OfNode, c.name) {
			t.Errorf("%s runs in the machine: %t: %s", c.name, inside, command)
		}
		if strings.Contains(command, "0.0.0.0") {
			t.Errorf("%s listens everywhere: %s", c.name, command)
		}
	}
}

func TestAPIServerOfANode(t *testing.T) {
	arguments := apiServerArguments(newTestSiteWithNode(t))
	for _, want := range []string{
		"--bind-address=198.18.64.1", "--advertise-address=198.18.64.1", "--service-cluster-ip-range=198.18.68.0/22",
		"--authorization-mode=Node,RBAC", "--kubelet-preferred-address-types=InternalIP",
	} {
		if !slices.Contains(arguments, want) {
			t.Errorf("lacks %s: %q", want, arguments)
		}
	}
	if slices.Contains(arguments, "--endpoint-reconciler-type=none") {
		t.Error("pods could not find the API server")
	}
}

func TestNodeFilesAreFilledIn(t *testing.T) {
	s := newTestSiteWithNode(t)
	for file, want := range map[string]string{
		containerdFile: `conf_dir = "` + s.node.Folder + `/cni"`,
		cniFile:        `{"subnet": "198.18.80.0/24"}`,
		kubeletFile:    "cgroupRoot: /group/node-1\n",
		kubeProxyFile:  "clusterCIDR: 198.18.80.0/20\n",
		coreFile:       "bind 198.18.64.11\n",
		objectsFile:    "clusterIP: 198.18.68.10\n",
	} {
		content, err := os.ReadFile(s.nodeFile(file))
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s lacks %q: %v\n%s", file, want, err, content)
		}
	}
}
