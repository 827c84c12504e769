package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/example/databases/dev/cluster/internal/pki"
)

// firstNode is the name of a cluster's node. A second one would be node-2.
const firstNode = "node-1"

// Provisioner is the name by which StorageClasses choose the node's volumes.
const Provisioner = "volumes.dev.databases.example.com"

// pauseImage is the name of the image that holds a pod's namespaces.
const pauseImage = "localhost/pause:1"

// makeNodeFiles writes what the components of the node read at their start.
func (s *site) makeNodeFiles(authority *pki.Authority, cluster string) error {
	address := s.node.Address().String()
	var err error
	s.kubeletServing, err = authority.Issue("kubelet-serving", pki.Subject{CommonName: kubelet, Hosts: []string{address, s.node.Name}})
	if err != nil {
		return err
	}
	s.kubeletClient, err = authority.Issue("kubelet-client", pki.Subject{CommonName: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	if err := s.makeKubeconfigs(authority, cluster, map[string]pki.Subject{
		s.kubeconfig(kubelet):   {CommonName: "system:node:" + s.node.Name, Groups: []string{"system:nodes"}},
		s.kubeconfig(kubeProxy): {CommonName: "system:kube-proxy"},
		s.kubeconfig(coreDNS):   {CommonName: "system:coredns"},
		s.kubeconfig(volumes):   {CommonName: "system:volumes"},
	}); err != nil {
		return err
	}
	return s.writeNodeConfigurations()
}

func (s *site) nodeFile(name string) string { return filepath.Join(s.node.Folder, name) }

// kubeletClientArguments let the API server reach kubelets and let these see only what concerns their own node.
func (s *site) kubeletClientArguments() []string {
	return []string{
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-certificate-authority=" + s.authority.Certificate,
		"--kubelet-client-certificate=" + s.kubeletClient.Certificate,
		"--kubelet-client-key=" + s.kubeletClient.Key,
		"--kubelet-preferred-address-types=InternalIP", // names of nodes don't resolve
	}
}

func containerdArguments(s *site) []string {
	return []string{"--config=" + s.nodeFile(containerdFile)}
}

func kubeletArguments(s *site) []string {
	return []string{
		"--config=" + s.nodeFile(kubeletFile),
		"--kubeconfig=" + s.kubeconfig(kubelet),
		"--hostname-override=" + s.node.Name,
		"--node-ip=" + s.node.Address().String(),
	}
}

func kubeProxyArguments(s *site) []string {
	return []string{"--config=" + s.nodeFile(kubeProxyFile)}
}

func coreDNSArguments(s *site) []string {
	return []string{"-conf=" + s.nodeFile(coreFile)}
}

func volumesArguments(s *site) []string {
	return []string{
		"-kubeconfig=" + s.kubeconfig(volumes),
		"-provisioner=" + Provisioner,
		"-node=" + s.node.Name,
		"-folder=/var/lib/volumes",
		"-health=" + fmt.Sprintf("%s:%d", s.node.Address(), s.ports[volumes][0]),
	}
}
