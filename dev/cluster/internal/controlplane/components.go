package controlplane

import (
	"fmt"
	"slices"
	"strings"
)

// component describes one process of a cluster.
type component struct {
	name      string
	needs     []string // the components that must be healthy before this one starts
	ports     int      // how many it listens on; the first answers health checks
	health    string   // the path of its health check
	arguments func(*site) []string
}

// components holds every component in an order in which they can start.
var components = []component{
	{name: etcd, ports: 2, health: "/health", arguments: etcdArguments},
	{name: apiServer, needs: []string{etcd}, ports: 1, health: "/readyz", arguments: apiServerArguments},
	{name: controllerManager, needs: []string{apiServer}, ports: 1, health: "/healthz", arguments: controllerManagerArguments},
	{name: scheduler, needs: []string{apiServer}, ports: 1, health: "/readyz", arguments: schedulerArguments},
}

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// Default are the components of a cluster unless its user chooses.
var Default = []string{etcd, apiServer, controllerManager, scheduler}

// choose returns the components of these names in the order in which they start.
func choose(names []string) ([]component, error) {
	var chosen []component
	for _, c := range components {
		if !slices.Contains(names, c.name) {
			continue
		}
		for _, needed := range c.needs {
			if !slices.Contains(names, needed) {
				return nil, fmt.Errorf("component %s needs %s: add it to --components", c.name, needed)
			}
		}
		chosen = append(chosen, c)
	}
	for _, name := range names {
		if !slices.ContainsFunc(components, hasName(name)) {
			return nil, fmt.Errorf("there is no component %q: --components takes %s", name, strings.Join(Default, ", "))
		}
	}
	if !slices.Contains(names, apiServer) {
		return nil, fmt.Errorf("a cluster needs %s: add it to --components", apiServer)
	}
	return chosen, nil
}

func hasName(name string) func(component) bool {
	return func(c component) bool { return c.name == name }
}

func etcdArguments(s *site) []string {
	client, peer := s.url(etcd, 0), s.url(etcd, 1)
	return []string{
		"--name=" + etcd,
		"--data-dir=" + s.file("etcd"),
		"--unsafe-no-fsync", // the data is thrown away anyway
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + etcd + "=" + peer,
		"--client-cert-auth",
		"--trusted-ca-file=" + s.etcdAuthority.Certificate,
		"--cert-file=" + s.etcdServing.Certificate,
		"--key-file=" + s.etcdServing.Key,
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + s.etcdAuthority.Certificate,
		"--peer-cert-file=" + s.etcdServing.Certificate,
		"--peer-key-file=" + s.etcdServing.Key,
	}
}

func apiServerArguments(s *site) []string {
	arguments := []string{
		"--etcd-servers=" + s.url(etcd, 0),
		"--etcd-cafile=" + s.etcdAuthority.Certificate,
		"--etcd-certfile=" + s.etcdClient.Certificate,
		"--etcd-keyfile=" + s.etcdClient.Key,
		"--bind-address=" + loopback,
		s.securePort(apiServer),
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none", // an EndpointSlice may not hold a loopback address
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + ServiceRange,
		"--client-ca-file=" + s.authority.Certificate,
		"--tls-cert-file=" + s.serving.Certificate,
		"--tls-private-key-file=" + s.serving.Key,
		"--requestheader-client-ca-file=" + s.proxyAuthority.Certificate,
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.proxyClient.Certificate,
		"--proxy-client-key-file=" + s.proxyClient.Key,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.tokenPublic,
		"--service-account-signing-key-file=" + s.tokenPrivate,
	}
	if !s.has(controllerManager) {
		// Nothing makes service accounts then, and no pod could be created without one.
		arguments = append(arguments, "--disable-admission-plugins=ServiceAccount")
	}
	if s.auditLog != "" {
		arguments = append(arguments,
			"--audit-policy-file="+s.auditPolicy,
			"--audit-log-path="+s.auditLog,
			"--audit-log-mode=blocking",    // a request is answered after its line is written, so none is missing
			"--audit-log-maxsize=10000000", // megabytes: one file, never rotated
		)
	}
	return arguments
}

func controllerManagerArguments(s *site) []string {
	return append(s.clientArguments(controllerManager),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+s.tokenPrivate,
		"--root-ca-file="+s.authority.Certificate,
		"--cluster-signing-cert-file="+s.authority.Certificate,
		"--cluster-signing-key-file="+s.authority.Key,
		// With the default limits of 20 and 30 the controllers would take five seconds to start.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	)
}

func schedulerArguments(s *site) []string { return s.clientArguments(scheduler) }

// clientArguments are those that the components which work through the API server have in common.
func (s *site) clientArguments(name string) []string {
	kubeconfig := s.kubeconfig(name)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false", // there is only this one
		"--bind-address=" + loopback,
		s.securePort(name),
		"--tls-cert-file=" + s.serving.Certificate,
		"--tls-private-key-file=" + s.serving.Key,
	}
}
