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
	objectsFile    = "objects.yaml" // what the API server is given
)

// nodeValues are what the templates are filled with.
type nodeValues struct {
	Name, Folder, Cgroup, CNI, PauseImage, Provisioner string
	Address, DNS                                       netip.Addr
	Pods, PodsOfNode                                   netip.Prefix
	Authority, ProxyKubeconfig, DNSKubeconfig          string
	Serving                                            pki.Pair
}

func (s *site) writeNodeConfigurations() error {
	network := s.node.Network()
	values := nodeValues{
		Name: s.node.Name, Folder: s.node.Folder, Cgroup: s.node.Cgroup, CNI: node.CNI,
		PauseImage: pauseImage, Provisioner: Provisioner,
		Address: s.node.Address(), DNS: network.DNS(),
		Pods: network.Pods(), PodsOfNode: network.PodsOf(s.node.Number),
		Authority: s.authority.Certificate, Serving: s.kubeletServing,
		ProxyKubeconfig: s.kubeconfig(kubeProxy), DNSKubeconfig: s.kubeconfig(coreDNS),
	}
	for _, name := range []string{containerdFile, cniFile, kubeletFile, kubeProxyFile, coreFile, objectsFile} {
		var content bytes.Buffer
		parsed, err := template.ParseFS(templates, "templates/"+templateOf(name))
		if err == nil {
			err = parsed.Execute(&content, values)
		}
		if err != nil {
			return fmt.Errorf("make the node's file %s: %w", name, err)
		}
		if err := os.MkdirAll(filepath.Dir(s.nodeFile(name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(s.nodeFile(name), content.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func templateOf(name string) string {
	if name == cniFile {
		return "cni.conflist"
	}
	return name
}
