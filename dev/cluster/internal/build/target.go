package build

// Target is a module of dev/cluster from which one program is built, that all its components are links to.
type Target struct {
	name       string // of its folder in dev/cluster and in the cache, and of the program
	title      string // what people call it
	firstBuild string // how long the first one takes
	components []string
	packages   []string // further programs, named as their folders
}

// Kubernetes is etcd and Kubernetes. Its components of a node exist on Linux only.
var Kubernetes = &Target{
	name: "kubernetes", title: "Kubernetes", firstBuild: "about six minutes",
	components: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy"},
}

// Node is what a node needs besides.
var Node = &Target{
	name: "node", title: "the node's programs", firstBuild: "about four minutes",
	components: []string{"coredns", "volumes"},
	packages:   []string{"pause"},
}

const modulePrefix = "github.com/example/databases/dev/cluster/"

// module is the path of the target's module.
func (t *Target) module() string { return modulePrefix + t.name }

func (t *Target) heading() string { return "module " + t.module() + "\n" }

// targetOf returns the target that a component's program is built from.
func targetOf(component string) *Target {
	for _, name := range append(Node.components, Node.packages...) {
		if name == component {
			return Node
		}
	}
	return Kubernetes
}
