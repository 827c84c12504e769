package testenv

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Option changes the control plane that Start and Main start.
type Option func(*options)

type options struct {
	arguments []string
	scheme    *runtime.Scheme
}

func newOptions(opts []Option) *options {
	o := &options{
		// No node, no scheduler: pods stay pending, as tests of controllers want.
		arguments: []string{"--components=etcd,kube-apiserver,kube-controller-manager"},
		scheme:    clientgoscheme.Scheme,
	}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// WithComponents chooses the control plane's components instead of etcd, kube-apiserver and
// kube-controller-manager.
func WithComponents(names ...string) Option {
	return func(o *options) {
		o.arguments = append(o.arguments, "--components="+strings.Join(names, ","))
	}
}

// WithAuditLog makes the API server write a line of JSON for each request to the file.
func WithAuditLog(file string) Option {
	return func(o *options) { o.arguments = append(o.arguments, "--audit-log="+file) }
}

// WithScheme sets the types that Environment.Client knows. The default knows those of Kubernetes itself.
func WithScheme(scheme *runtime.Scheme) Option {
	return func(o *options) { o.scheme = scheme }
}

// WithNode gives the cluster every component and a real node, on which pods run, with the images of these archives. It
// needs Linux, root and what `dev/setup node` installs.
func WithNode(archives ...string) Option { return WithNodes(1, archives...) }

// WithNodes is WithNode with several nodes, which are called node-1, node-2 and node-3.
func WithNodes(number int, archives ...string) Option {
	return func(o *options) {
		o.arguments = append(o.arguments,
			"--components=etcd,kube-apiserver,kube-controller-manager,kube-scheduler", fmt.Sprintf("--nodes=%d", number))
		for _, archive := range archives {
			o.arguments = append(o.arguments, "--image="+archive)
		}
	}
}
