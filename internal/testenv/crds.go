package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	establishedInterval = 20 * time.Millisecond
	establishedLimit    = 30 * time.Second
)

// installCRDs creates every CustomResourceDefinition and returns when the API server serves all their versions.
func installCRDs(ctx context.Context, config *rest.Config, definitions fs.FS) error {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client for CRDs: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	crds, err := readCRDs(definitions)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := c.Create(ctx, crd); err != nil {
			return fmt.Errorf("install CRD %q: %w", crd.Name, err)
		}
	}
	for _, crd := range crds {
		if err := awaitCRD(ctx, c, server, crd); err != nil {
			return err
		}
	}
	return nil
}

// readCRDs reads the definitions from the YAML files, one in each.
func readCRDs(definitions fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(definitions, "*.yaml")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, err := fs.ReadFile(definitions, file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("read CRD file %q: %w", file, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// awaitCRD waits until the definition is established and each served version is found, as clients find it.
func awaitCRD(ctx context.Context, c client.Client, server *discovery.DiscoveryClient, crd *apiextensionsv1.CustomResourceDefinition) error {
	missing := errors.New("not established")
	err := wait.PollUntilContextTimeout(ctx, establishedInterval, establishedLimit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return false, err
		}
		if missing = refusal(crd); missing != nil {
			return false, nil
		}
		for _, version := range crd.Spec.Versions {
			served, err := serves(server, schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}, crd.Spec.Names.Plural)
			if err != nil {
				return false, err
			}
			if version.Served && !served {
				missing = fmt.Errorf("version %q is not served", version.Name)
				return false, nil
			}
		}
		return true, nil
	})
	if wait.Interrupted(err) {
		err = missing
	}
	if err != nil {
		return fmt.Errorf("install CRD %q: %w", crd.Name, err)
	}
	return nil
}

// refusal tells why the definition is not established, and is nil if it is.
func refusal(crd *apiextensionsv1.CustomResourceDefinition) error {
	reason := errors.New("not established")
	for _, condition := range crd.Status.Conditions {
		switch {
		case condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue:
			return nil
		case condition.Type == apiextensionsv1.NamesAccepted && condition.Status == apiextensionsv1.ConditionFalse:
			reason = errors.New(condition.Message)
		}
	}
	return reason
}

func serves(server *discovery.DiscoveryClient, version schema.GroupVersion, plural string) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, resource := range list.APIResources {
		if resource.Name == plural {
			return true, nil
		}
	}
	return false, nil
}
