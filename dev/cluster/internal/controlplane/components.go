package controlplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/example/databases/dev/cluster/internal/node"
)

// component describes one process of a cluster, or one of each of its nodes.
type component struct {
	name      string
	needs     []string // the components that must be healthy before this one starts
	ports     int      // how many it listens on; the first answers health checks
	fixed     int      // its only port if it runs on nodes, where every port is free
	plain     bool     // its health check is no HTTPS
	health    string   // the path of its health check
	arguments func(*site) []string
	inNode    func(*site, *node.Machine) []string // instead of arguments, if it runs on nodes
}

// onNode says whether a component runs on nodes rather than on this machine itself.
func (c component) onNode() bool { return c.inNode != nil }

// unit is a component in one place.
type unit struct {
	component
	machine *node.Machine // nil for this machine itself
}

// id tells the units of a component apart. Those of the first node have the component's own name.
func (u unit) id() string { return idOn(u.name, u.machine) }

func idOn(name string, machine *node.Machine) string {
	if machine == nil || machine.Number == 1 {
		return name
	}
	return name + "-" + machine.Name
}

// components holds every component in an order in which they can start.
var components = []component{
	{name: etcd, ports: 2, health: "/health", arguments: etcdArguments},
	{name: containerd, fixed: 1338, plain: true, health: "/v1/metrics", inNode: containerdArguments},
	{name: apiServer, needs: []string{etcd}, ports: 1, health: "/readyz", arguments: apiServerArguments},
	{name: controllerManager, needs: []string{apiServer}, ports: 1, health: "/healthz", arguments: controllerManagerArguments},
	{name: scheduler, needs: []string{apiServer}, ports: 1, health: "/readyz", arguments: schedulerArguments},
	{name: kubelet, needs: []string{apiServer, containerd}, fixed: 10250, health: "/healthz", inNode: kubeletArguments},
	{name: kubeProxy, needs: []string{apiServer}, fixed: 10256, plain: true, health: "/healthz", inNode: kubeProxyArguments},
	{name: coreDNS, needs: []string{apiServer}, fixed: 8181, plain: true, health: "/ready", inNode: coreDNSArguments},
	{name: volumes, needs: []string{apiServer}, fixed: 8090, plain: true, health: "/", inNode: volumesArguments},
}

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	containerd        = "containerd"
	kubelet           = "kubelet"
	kubeProxy         = "kube-proxy"
	coreDNS           = "coredns"
	volumes           = "volumes"
)

// Default are the components of a cluster unless its user chooses.
var Default = []string{etcd, apiServer, controllerManager, scheduler}

// OfNode are the components that a node adds to the default ones.
var OfNode = []string{containerd, kubelet, kubeProxy, coreDNS, volumes}

// choose returns the components of these names in the order in which they start.
func choose(names []string) ([]component, error) {
	for _, name := range names {
		if !slices.ContainsFunc(components, hasName(name)) || slices.Contains(OfNode, name) && !withNode(names) {
			return nil, fmt.Errorf("there is no component %q: --components takes %s", name, strings.Join(Default, ", "))
		}
	}
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
	if !slices.Contains(names, apiServer) {
		return nil, fmt.Errorf("a cluster needs %s: add it to --components", apiServer)
	}
	for _, name := range Default {
		if withNode(names) && !slices.Contains(names, name) {
			return nil, fmt.Errorf("a node needs %s: add it to --components", name)
		}
	}
	return chosen, nil
}

// withNode says whether all that a node is made of is there.
func withNode(names []string) bool {
	for _, name := range OfNode {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
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
		"--bind-address=" + s.host(apiServer),
		s.securePort(apiServer),
		"--advertise-address=" + s.host(apiServer),
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + s.serviceRange(),
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
		// As some distributions have it: who names an owner whose deletion is to wait needs the right to its finalizers.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.tokenPublic,
		"--service-account-signing-key-file=" + s.tokenPrivate,
	}
	if s.nodes == nil {
		arguments = append(arguments,
			"--authorization-mode=RBAC",
			"--endpoint-reconciler-type=none") // an EndpointSlice may not hold a loopback address
	} else {
		arguments = append(arguments, s.kubeletClientArguments()...)
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
