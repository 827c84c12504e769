package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/example/databases/dev/cluster/internal/node"
)

func newTestSiteWithNodes(t *testing.T, nodes int) *site {
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
	var machines []*node.Machine
	for number := 1; number <= nodes; number++ {
		name := nodeName(number)
		machines = append(machines, &node.Machine{
			Name: name, Number: number, PID: 6 + number, Slot: 2, Folder: filepath.Join(config.Folder, name), Cgroup: "/group/" + name,
		})
	}
	s, err := newSite(config, chosen, ports, machines)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestComponentsOfANode(t *testing.T) {
	s := newTestSiteWithNodes(t, 1)
	for _, u := range s.units() {
		command := strings.Join(s.command(u, "/programs/"+u.name).Args, " ")
		if inside := strings.Contains(command, "--target 7 "); inside != slices.Contains(OfNode, u.name) {
			t.Errorf("%s runs in the machine: %t: %s", u.name, inside, command)
		}
		if strings.Contains(command, "0.0.0.0") {
			t.Errorf("%s listens everywhere: %s", u.name, command)
		}
		if u.id() != u.name {
			t.Errorf("with one node %s is called %s", u.name, u.id())
		}
	}
}

func TestEachNodeHasItsComponents(t *testing.T) {
	s := newTestSiteWithNodes(t, 2)
	commands, logs := map[string]string{}, map[string]bool{}
	for _, u := range s.units() {
		command := s.command(u, "/programs/"+u.name)
		commands[u.id()] = strings.Join(command.Args, " ")
		logs[s.log(u.id())] = true
	}
	if want := len(Default) + 2*len(OfNode); len(commands) != want || len(logs) != want {
		t.Errorf("%d components with %d logs, want %d", len(commands), len(logs), want)
	}
	for _, name := range OfNode {
		for id, want := range map[string]string{name: "--target 7 ", name + "-node-2": "--target 8 "} {
			if !strings.Contains(commands[id], want) {
				t.Errorf("%s does not run in its machine: %s", id, commands[id])
			}
		}
	}
	for id, want := range map[string]string{
		"kubelet": "zone=zone-1", "kubelet-node-2": "zone=zone-2", "volumes-node-2": "-node=node-2 ",
	} {
		if !strings.Contains(commands[id], want) {
			t.Errorf("%s lacks %q: %s", id, want, commands[id])
		}
	}
}

func TestAPIServerOfANode(t *testing.T) {
	arguments := apiServerArguments(newTestSiteWithNodes(t, 1))
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
	s := newTestSiteWithNodes(t, 2)
	for number, machine := range s.nodes {
		for file, want := range map[string]string{
			containerdFile: `conf_dir = "` + machine.Folder + `/cni"`,
			cniFile:        fmt.Sprintf(`{"subnet": "198.18.%d.0/24"}`, 80+number),
			kubeletFile:    fmt.Sprintf("cgroupRoot: /group/node-%d\n", 1+number),
			kubeProxyFile:  "clusterCIDR: 198.18.80.0/20\n",
			coreFile:       fmt.Sprintf("bind 198.18.64.%d\n", 11+number),
		} {
			mustContain(t, nodeFile(machine, file), want)
		}
	}
	mustContain(t, s.file(objectsFile), "clusterIP: 198.18.68.10\n")
	mustContain(t, s.file(objectsFile), "- {addresses: [198.18.64.12], nodeName: node-2, ")
}

func TestWhereVolumesAreIsChosenWhereThereIsAChoice(t *testing.T) {
	for nodes, want := range map[int]string{1: "volumeBindingMode: Immediate\n", 2: "volumeBindingMode: WaitForFirstConsumer\n"} {
		mustContain(t, newTestSiteWithNodes(t, nodes).file(objectsFile), want)
	}
}

func mustContain(t *testing.T, file, want string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(content), want) {
		t.Errorf("%s lacks %q: %v\n%s", file, want, err, content)
	}
}
