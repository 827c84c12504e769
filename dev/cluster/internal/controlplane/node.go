package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/pki"
)

// nodeName is the name of a cluster's node, counted from 1.
func nodeName(number int) string { return fmt.Sprintf("node-%d", number) }

// Provisioner is the name by which StorageClasses choose the node's volumes.
const Provisioner = "volumes.dev.databases.example.com"

// pauseImage is the name of the image that holds a pod's namespaces.
const pauseImage = "localhost/pause:1"

// makeNodeFiles writes what the components of the node read at their start.
func (s *site) makeNodeFiles(authority *pki.Authority, cluster string) error {
	var err error
	s.kubeletClient, err = authority.Issue("kubelet-client", pki.Subject{CommonName: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	users := map[string]pki.Subject{
		s.kubeconfig(kubeProxy): {CommonName: "system:kube-proxy"},
		s.kubeconfig(coreDNS):   {CommonName: "system:coredns"},
		s.kubeconfig(volumes):   {CommonName: "system:volumes"},
	}
	for _, machine := range s.nodes {
		users[s.kubeconfig(idOn(kubelet, machine))] = pki.Subject{CommonName: "system:node:" + machine.Name, Groups: []string{"system:nodes"}}
	}
	if err := s.makeKubeconfigs(authority, cluster, users); err != nil {
		return err
	}
	for _, machine := range s.nodes {
		subject := pki.Subject{CommonName: kubelet, Hosts: []string{machine.Address().String(), machine.Name}}
		serving, err := authority.Issue(idOn("kubelet-serving", machine), subject)
		if err != nil {
			return err
		}
		if err := s.writeNodeConfigurations(machine, serving); err != nil {
			return err
		}
	}
	return s.writeObjects()
}

func nodeFile(machine *node.Machine, name string) string { return filepath.Join(machine.Folder, name) }

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

func containerdArguments(_ *site, machine *node.Machine) []string {
	return []string{"--config=" + nodeFile(machine, containerdFile)}
}

func kubeletArguments(s *site, machine *node.Machine) []string {
	return []string{
		"--config=" + nodeFile(machine, kubeletFile),
		"--kubeconfig=" + s.kubeconfig(idOn(kubelet, machine)),
		"--hostname-override=" + machine.Name,
		"--node-ip=" + machine.Address().String(),
		fmt.Sprintf("--node-labels=topology.kubernetes.io/zone=zone-%d", machine.Number),
	}
}

func kubeProxyArguments(_ *site, machine *node.Machine) []string {
	return []string{"--config=" + nodeFile(machine, kubeProxyFile)}
}

func coreDNSArguments(_ *site, machine *node.Machine) []string {
	return []string{"-conf=" + nodeFile(machine, coreFile)}
}

func volumesArguments(s *site, machine *node.Machine) []string {
	return []string{
		"-kubeconfig=" + s.kubeconfig(volumes),
		"-provisioner=" + Provisioner,
		"-node=" + machine.Name,
		"-folder=/var/lib/volumes",
		"-health=" + fmt.Sprintf("%s:%d", machine.Address(), s.ports[volumes][0]),
	}
}
