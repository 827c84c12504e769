package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/example/databases/api/postgres/v1alpha1"
	"github.com/example/databases/internal/manager"
	"github.com/example/databases/internal/postgres"
	"github.com/example/databases/internal/settings"
)

const adoptUsage = `databases adopt writes a claim on existing roles, so that Databases of this cluster can take them.

usage:
  databases adopt --role NAME --namespace NAMESPACE --name NAME
      hands the role NAME, which nobody has claimed, to the Database NAMESPACE/NAME, which may not exist yet
  databases adopt --from-cluster UID [--namespace NAMESPACE]
      hands every role that the cluster of that UID claimed to the Databases of the same names in this cluster: for a
      cluster that was built anew. The old cluster's controller must not run any more.

It reads POSTGRES_ADMIN_DSN_FILE for the server and KUBECONFIG (or the pod's variables) for this cluster; --cluster
gives this cluster's UID (of its Namespace kube-system) instead. A role's claim is its comment; see it with \du+ in psql.
`

type adoption struct {
	role, namespace, name, fromCluster, cluster string
}

func adopt(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) error {
	var a adoption
	flags := flag.NewFlagSet("databases adopt", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stdout, adoptUsage) }
	flags.StringVar(&a.role, "role", "", "")
	flags.StringVar(&a.namespace, "namespace", "", "")
	flags.StringVar(&a.name, "name", "", "")
	flags.StringVar(&a.fromCluster, "from-cluster", "", "")
	flags.StringVar(&a.cluster, "cluster", "", "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return silent{errUsage}
	}
	single := a.role != "" && a.namespace != "" && a.name != "" && a.fromCluster == ""
	whole := a.fromCluster != "" && a.role == "" && a.name == ""
	if flags.NArg() > 0 || single == whole {
		return fmt.Errorf("databases adopt: give --role, --namespace and --name, or --from-cluster; see databases adopt --help%w", silent{errUsage})
	}
	file, err := settings.AdminDSNFile(lookup)
	if err != nil {
		return fmt.Errorf("databases: the settings are wrong; see databases --help\n%w%w", err, silent{errConfig})
	}
	if a.cluster == "" {
		if a.cluster, err = thisCluster(ctx, lookup); err != nil {
			return err
		}
	}
	server, err := postgres.NewServer(file, nil)
	if err != nil {
		return err
	}
	defer server.Close()
	if single {
		return a.one(ctx, server, stdout)
	}
	return a.all(ctx, server, stdout)
}

func (a adoption) one(ctx context.Context, server *postgres.Server, stdout io.Writer) error {
	claim := postgres.Claim{Cluster: a.cluster, Group: v1alpha1.GroupVersion.Group, Namespace: a.namespace, Name: a.name}
	if err := server.Adopt(ctx, a.role, claim, nil); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "role %s: %s\n", a.role, claim)
	return nil
}

func (a adoption) all(ctx context.Context, server *postgres.Server, stdout io.Writer) error {
	claimed, err := server.Claims(ctx, a.fromCluster)
	if err != nil {
		return err
	}
	var failed []error
	var adopted int
	for _, c := range claimed {
		if a.namespace != "" && c.Claim.Namespace != a.namespace {
			continue
		}
		claim := c.Claim
		claim.Cluster, claim.UID = a.cluster, ""
		if err := server.Adopt(ctx, c.Role, claim, &c.Claim); err != nil {
			failed = append(failed, fmt.Errorf("role %s: %w", c.Role, err))
			continue
		}
		adopted++
		fmt.Fprintf(stdout, "role %s: %s\n", c.Role, claim)
	}
	fmt.Fprintf(stdout, "%d adopted, %d failed\n", adopted, len(failed))
	return errors.Join(failed...)
}

// thisCluster is the uid by which claims know the cluster that the settings name.
func thisCluster(ctx context.Context, lookup func(string) (string, bool)) (string, error) {
	config, err := settings.KubeConfig(lookup)
	if err != nil {
		return "", fmt.Errorf("databases: the settings are wrong; see databases --help, or give --cluster\n%w%w", err, silent{errConfig})
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return "", fmt.Errorf("connecting to the API server: %w", err)
	}
	return manager.ClusterID(ctx, c)
}
