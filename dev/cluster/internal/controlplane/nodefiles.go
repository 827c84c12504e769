package controlplane

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"

	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/pki"
)

//go:embed templates
var templates embed.FS

// The files of a node, as they are called in its folder.
const (
	containerdFile = "containerd.toml"
	cniFile        = "cni/pods.conflist"
	kubeletFile    = "kubelet.yaml"
	kubeProxyFile  = "kube-proxy.yaml"
	coreFile       = "Corefile"
)

// objectsFile is what the API server is given, in the cluster's folder.
const objectsFile = "objects.yaml"

// nodeValues are what the templates of a node's files are filled with.
type nodeValues struct {
	Name, Folder, Cgroup, CNI, PauseImage     string
	Address, DNS                              netip.Addr
	Pods, PodsOfNode                          netip.Prefix
	Authority, ProxyKubeconfig, DNSKubeconfig string
	Serving                                   pki.Pair
}

func (s *site) writeNodeConfigurations(machine *node.Machine, serving pki.Pair) error {
	network := machine.Network()
	values := nodeValues{
		Name: machine.Name, Folder: machine.Folder, Cgroup: machine.Cgroup, CNI: node.CNI, PauseImage: pauseImage,
		Address: machine.Address(), DNS: network.DNS(),
		Pods: network.Pods(), PodsOfNode: network.PodsOf(machine.Number),
		Authority: s.authority.Certificate, Serving: serving,
		ProxyKubeconfig: s.kubeconfig(kubeProxy), DNSKubeconfig: s.kubeconfig(coreDNS),
	}
	for _, name := range []string{containerdFile, cniFile, kubeletFile, kubeProxyFile, coreFile} {
		if err := writeFile(nodeFile(machine, name), templateOf(name), values); err != nil {
			return err
		}
	}
	return nil
}

// objectValues are what the template of the API server's objects is filled with.
type objectValues struct {
	Provisioner, Binding string
	DNS                  netip.Addr
	Nodes                []*node.Machine
}

func (s *site) writeObjects() error {
	values := objectValues{Provisioner: Provisioner, Binding: "Immediate", DNS: s.network().DNS(), Nodes: s.nodes}
	if len(s.nodes) > 1 {
		values.Binding = "WaitForFirstConsumer"
	}
	return writeFile(s.file(objectsFile), objectsFile, values)
}

func writeFile(file, name string, values any) error {
	var content bytes.Buffer
	parsed, err := template.ParseFS(templates, "templates/"+name)
	if err == nil {
		err = parsed.Execute(&content, values)
	}
	if err != nil {
		return fmt.Errorf("make the file %s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content.Bytes(), 0o600)
}

func templateOf(name string) string {
	if name == cniFile {
		return "cni.conflist"
	}
	return name
}
