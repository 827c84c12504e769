// Command kubernetes is etcd and Kubernetes in one program: it becomes the component that it is called as, through
// a symbolic link of that name, or that its first argument names. One program instead of eight shares the
// gigabyte of code that they have in common, so it links once and its pages are loaded once.
//
// It is a module of its own because k8s.io/kubernetes needs a replace directive for each of its staging modules,
// which no other module of this repository should inherit.
//
// Invariants: a component behaves as its upstream command does, with nothing but its name chosen here; the names
// are those of the upstream commands.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// components maps a name to the main function that upstream gives that command. Each returns the exit status.
var components = map[string]func() int{
	"etcd":                    etcd,
	"kube-apiserver":          kubeAPIServer,
	"kube-controller-manager": kubeControllerManager,
	"kube-scheduler":          kubeScheduler,
	"kubectl":                 kubectl,
}

func main() {
	args, ok := choose(os.Args)
	if !ok {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "usage: %s COMPONENT [FLAGS], or a link named as the component: %s\n",
			filepath.Base(os.Args[0]), strings.Join(names, ", "))
		os.Exit(2)
	}
	// Components read os.Args themselves, so that must look as if they had been called directly.
	os.Args = args
	os.Exit(components[args[0]]())
}

// choose returns the arguments of the component that args name, with the component's plain name first.
func choose(args []string) ([]string, bool) {
	for skip := 0; skip < 2 && skip < len(args); skip++ {
		name := strings.TrimSuffix(filepath.Base(args[skip]), ".exe")
		if _, ok := components[name]; ok {
			return append([]string{name}, args[skip+1:]...), true
		}
	}
	return nil, false
}
