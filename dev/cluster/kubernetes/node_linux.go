package main

import (
	"context"

	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The components of a node exist on Linux only, where containers do.
func init() {
	components["kubelet"] = func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) }
	components["kube-proxy"] = func() int { return cli.Run(proxy.NewProxyCommand()) }
}
