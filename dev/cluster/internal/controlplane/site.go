package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/example/databases/dev/cluster/internal/pki"
)

// ServiceRange is where the cluster's service addresses come from.
const ServiceRange = "10.96.0.0/16"

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

	authority, serving                     pki.Pair
	etcdAuthority, etcdServing, etcdClient pki.Pair
	proxyAuthority, proxyClient            pki.Pair
	tokenPublic, tokenPrivate              string
	auditLog, auditPolicy                  string
}

// newSite writes all files that the components read at their start.
func newSite(config Config, chosen []component, ports map[string][]int) (*site, error) {
	s := &site{folder: config.Folder, components: chosen, ports: ports, auditLog: config.AuditLog}
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
	return s, s.makeKeys(config.Name)
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

func (s *site) makeKeys(cluster string) error {
	authority, err := pki.NewAuthority(s.file("pki"), "ca")
	if err != nil {
		return err
	}
	s.authority = authority.Files()
	s.serving, err = authority.Issue("serving", pki.Subject{CommonName: "kube-apiserver", Hosts: []string{
		loopback, "localhost", "10.96.0.1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}})
	if err != nil {
		return err
	}
	if s.tokenPublic, s.tokenPrivate, err = pki.WriteKeyPair(s.file("pki"), "service-accounts"); err != nil {
		return err
	}
	for file, subject := range map[string]pki.Subject{
		s.adminKubeconfig():             {CommonName: "admin", Groups: []string{"system:masters"}},
		s.kubeconfig(controllerManager): {CommonName: "system:kube-controller-manager"},
		s.kubeconfig(scheduler):         {CommonName: "system:kube-scheduler"},
	} {
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

func (s *site) address(component string, port int) string {
	return fmt.Sprintf("%s:%d", loopback, s.ports[component][port])
}

func (s *site) url(component string, port int) string { return "https://" + s.address(component, port) }

func (s *site) securePort(component string) string {
	return fmt.Sprintf("--secure-port=%d", s.ports[component][0])
}

func (s *site) has(component string) bool {
	return slices.ContainsFunc(s.components, hasName(component))
}
