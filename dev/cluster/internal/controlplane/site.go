package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/example/databases/dev/cluster/internal/node"
	"github.com/example/databases/dev/cluster/internal/pki"
)

// The service addresses of a cluster without a node, where nothing answers at them.
const serviceRange, apiService = "10.96.0.0/16", "10.96.0.1"

const (
	loopback   = "127.0.0.1"
	frontProxy = "front-proxy-client"
)

// auditPolicy logs who did what to which object, once for each request (and once more when a watch begins).
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// site is where one cluster lives: its files and ports.
type site struct {
	folder     string
	components []component
	ports      map[string][]int
	nodes      []*node.Machine
	imported   chan error // yields for each node once the user's images are in it

	authority, serving                     pki.Pair
	etcdAuthority, etcdServing, etcdClient pki.Pair
	proxyAuthority, proxyClient            pki.Pair
	tokenPublic, tokenPrivate              string
	kubeletClient                          pki.Pair
	auditLog, auditPolicy                  string
}

// newSite writes all files that the components read at their start.
func newSite(config Config, chosen []component, ports map[string][]int, machines []*node.Machine) (*site, error) {
	s := &site{folder: config.Folder, components: chosen, ports: ports, nodes: machines, imported: make(chan error, len(machines)), auditLog: config.AuditLog}
	for _, folder := range []string{"pki", "log", "kubeconfigs"} {
		if err := os.MkdirAll(s.file(folder), 0o700); err != nil {
			return nil, err
		}
	}
	if s.auditLog != "" {
		s.auditPolicy = s.file("audit-policy.yaml")
		if err := os.WriteFile(s.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
			return nil, err
		}
	}
	if err := s.makeEtcdKeys(); err != nil {
		return nil, err
	}
	if err := s.makeProxyKeys(); err != nil {
		return nil, err
	}
	authority, err := pki.NewAuthority(s.file("pki"), "ca")
	if err != nil {
		return nil, err
	}
	if err := s.makeKeys(authority, config.Name); err != nil {
		return nil, err
	}
	if s.nodes == nil {
		return s, nil
	}
	return s, s.makeNodeFiles(authority, config.Name)
}

func (s *site) makeEtcdKeys() error {
	authority, err := pki.NewAuthority(s.file("pki"), "etcd-ca")
	if err != nil {
		return err
	}
	s.etcdAuthority = authority.Files()
	hosts := []string{loopback, "localhost"}
	if s.etcdServing, err = authority.Issue("etcd", pki.Subject{CommonName: "etcd", Hosts: hosts}); err != nil {
		return err
	}
	s.etcdClient, err = authority.Issue("etcd-client", pki.Subject{CommonName: "kube-apiserver"})
	return err
}

// makeProxyKeys makes what the API server shows to the extension API servers to which it passes requests on.
func (s *site) makeProxyKeys() error {
	authority, err := pki.NewAuthority(s.file("pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	s.proxyAuthority = authority.Files()
	s.proxyClient, err = authority.Issue(frontProxy, pki.Subject{CommonName: frontProxy})
	return err
}

func (s *site) makeKeys(authority *pki.Authority, cluster string) error {
	s.authority = authority.Files()
	var err error
	s.serving, err = authority.Issue("serving", pki.Subject{CommonName: "kube-apiserver", Hosts: []string{
		loopback, "localhost", s.host(apiServer), s.apiService(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}})
	if err != nil {
		return err
	}
	if s.tokenPublic, s.tokenPrivate, err = pki.WriteKeyPair(s.file("pki"), "service-accounts"); err != nil {
		return err
	}
	return s.makeKubeconfigs(authority, cluster, map[string]pki.Subject{
		s.adminKubeconfig():             {CommonName: "admin", Groups: []string{"system:masters"}},
		s.kubeconfig(controllerManager): {CommonName: "system:kube-controller-manager"},
		s.kubeconfig(scheduler):         {CommonName: "system:kube-scheduler"},
	})
}

// makeKubeconfigs makes kubeconfig files for these users.
func (s *site) makeKubeconfigs(authority *pki.Authority, cluster string, users map[string]pki.Subject) error {
	for file, subject := range users {
		client, err := authority.Issue(filepath.Base(file), subject)
		if err != nil {
			return err
		}
		kubeconfig := pki.Kubeconfig{
			Cluster: cluster, Server: s.url(apiServer, 0), Authority: s.authority.Certificate,
			User: subject.CommonName, Client: client,
		}
		if err := kubeconfig.Write(file); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) file(name string) string { return filepath.Join(s.folder, name) }

func (s *site) log(component string) string { return filepath.Join(s.folder, "log", component+".log") }

// adminKubeconfig is the one for the cluster's user.
func (s *site) adminKubeconfig() string { return s.file("kubeconfig") }

func (s *site) kubeconfig(component string) string {
	return filepath.Join(s.folder, "kubeconfigs", component)
}

// network is that of the nodes, which must be there.
func (s *site) network() node.Network { return s.nodes[0].Network() }

// units are the components in their places, in the order in which they start.
func (s *site) units() []unit {
	var all []unit
	for _, c := range s.components {
		if !c.onNode() {
			all = append(all, unit{component: c})
			continue
		}
		for _, machine := range s.nodes {
			all = append(all, unit{component: c, machine: machine})
		}
	}
	return all
}

// host is the address that a component of this machine itself listens on.
func (s *site) host(component string) string {
	if s.nodes != nil && component == apiServer {
		return s.network().Host().String()
	}
	return loopback
}

func (s *site) serviceRange() string {
	if s.nodes == nil {
		return serviceRange
	}
	return s.network().Services().String()
}

// apiService is the address of the service through which pods find the API server.
func (s *site) apiService() string {
	if s.nodes == nil {
		return apiService
	}
	return s.network().API().String()
}

func (s *site) address(component string, port int) string {
	return fmt.Sprintf("%s:%d", s.host(component), s.ports[component][port])
}

func (s *site) url(component string, port int) string { return "https://" + s.address(component, port) }

func (s *site) securePort(component string) string {
	return fmt.Sprintf("--secure-port=%d", s.ports[component][0])
}

func (s *site) has(component string) bool {
	return slices.ContainsFunc(s.components, hasName(component))
}
