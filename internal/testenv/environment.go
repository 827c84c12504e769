package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/crds"
)

// Environment is a running control plane with the project's CustomResourceDefinitions installed.
type Environment struct {
	// Config is an administrator's, without a rate limit. Copy it before changing it.
	Config *rest.Config
	// Kubeconfig is the file for kubectl and other programs.
	Kubeconfig string

	cluster *cluster
	client  client.Client
}

// Start starts a control plane, building it before if that is necessary, which is reported on standard error. The
// context limits the start only; the control plane runs until Stop or the end of this process.
func Start(ctx context.Context, opts ...Option) (*Environment, error) {
	return start(ctx, crds.FS, opts)
}

func start(ctx context.Context, definitions fs.FS, opts []Option) (_ *Environment, err error) {
	options := newOptions(opts)
	cluster, err := startCluster(ctx, options.arguments)
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cluster.stop())
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the control plane's kubeconfig: %w", err)
	}
	config.QPS = -1 // 0 would mean five requests a second
	c, err := client.New(config, client.Options{Scheme: options.scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := installCRDs(ctx, config, definitions); err != nil {
		return nil, err
	}
	return &Environment{Config: config, Kubeconfig: cluster.kubeconfig, cluster: cluster, client: c}, nil
}

// Stop ends the control plane and removes its data. It returns an error if the control plane had ended before.
func (e *Environment) Stop() error { return e.cluster.stop() }

// Client returns a client that reads from the API server, not from a cache.
func (e *Environment) Client() client.Client { return e.client }
