// Command node is what a node needs besides Kubernetes: the cluster's DNS server and the provisioner of its volumes. It
// becomes the component that it is called as, through a symbolic link of that name. In the folder pause is the program
// of the container that holds a pod's namespaces.
//
// It is a module of its own because neither belongs into the dependencies of dev/cluster, which is built for every
// test, nor into those of Kubernetes' program, whose versions are Kubernetes'.
//
// Invariants: CoreDNS is upstream's, with the few plugins that a cluster's Corefile uses; both components run in the
// node's namespaces and reach the API server by a kubeconfig of their own.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/coredns/coredns/plugin/bind" // the plugins of the Corefile
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"

	"github.com/example/databases/dev/cluster/node/internal/volumes"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "coredns":
		coremain.Run()
	case "volumes":
		if err := volumes.Main(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "volumes:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "%s: call it through a link named coredns or volumes\n", name)
		os.Exit(2)
	}
}
